"""Problems, evaluations and tokens over REST."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.people import user_behind
from webapp.api.serializers import (
    ErrorSerializer,
    EvaluationSerializer,
    NewTokenSerializer,
    ProblemSerializer,
    ShownTokenSerializer,
    TokenSerializer,
    UploadSerializer,
)
from webapp.api.tokens import make_token, revoke_token, valid_tokens
from webapp.common.errors import UserError
from webapp.evaluations import queries as evaluation_queries
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Evaluation
from webapp.problems import queries as problem_queries
from webapp.problems.models import Problem
from webapp.teams.queries import first_team

REFUSED = OpenApiResponse(ErrorSerializer, description="Refused; `detail` says what to do.")
NOT_FOUND = OpenApiResponse(ErrorSerializer, description="There is none, or it is not your team's.")


class Pages(CursorPagination):
    """Newest first, in pages that stay put while rows are added."""

    page_size = 50
    ordering = "-created_at"


class Problems(ListAPIView[Problem]):
    """The problems of your teams."""

    serializer_class = ProblemSerializer
    pagination_class = Pages
    queryset = Problem.objects.none()

    def get_queryset(self) -> Any:
        return problem_queries.visible_to(user_behind(self.request))

    @extend_schema(request=UploadSerializer, responses={202: ProblemSerializer, 400: REFUSED})
    def post(self, request: Request) -> Response:
        """Upload a problem; the judge looks at it next, so poll until it is no longer `checking`."""
        given = UploadSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        user = user_behind(request)
        team = first_team(user)
        if team is None:
            raise UserError("You belong to no team yet; ask an admin to add you to one.")
        # JSON can write half a character; passed on, it is refused as no UTF-8.
        files = {
            path: text.encode(errors="surrogatepass")
            for path, text in given.validated_data["files"].items()
        }
        problem = upload_problem(team, user, files, given.validated_data.get("title", ""))
        return Response(ProblemSerializer(problem).data, status=status.HTTP_202_ACCEPTED)


@extend_schema(responses={200: ProblemSerializer, 404: NOT_FOUND})
class OneProblem(RetrieveAPIView[Problem]):
    """A problem, its state, and what the judge saw."""

    serializer_class = ProblemSerializer
    queryset = Problem.objects.none()

    def get_queryset(self) -> Any:
        return problem_queries.visible_to(user_behind(self.request))


@extend_schema(responses={200: EvaluationSerializer, 404: NOT_FOUND})
class OneEvaluation(RetrieveAPIView[Evaluation]):
    """A verdict."""

    serializer_class = EvaluationSerializer
    queryset = Evaluation.objects.none()

    def get_queryset(self) -> Any:
        return evaluation_queries.visible_to(user_behind(self.request))


class Tokens(APIView):
    """Your API tokens."""

    @extend_schema(responses={200: TokenSerializer(many=True)})
    def get(self, request: Request) -> Response:
        """Tokens that are good now; their text is not kept."""
        mine = valid_tokens().filter(user=user_behind(request))
        return Response(TokenSerializer(mine, many=True).data)

    @extend_schema(request=NewTokenSerializer, responses={201: ShownTokenSerializer, 400: REFUSED})
    def post(self, request: Request) -> Response:
        """Make a token; its text is shown in this answer only."""
        given = NewTokenSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        token, text = make_token(
            user_behind(request), given.validated_data["name"], given.validated_data["days"]
        )
        body = {**TokenSerializer(token).data, "token": text}
        return Response(body, status=status.HTTP_201_CREATED)


class OneToken(APIView):
    """One of your API tokens."""

    @extend_schema(request=None, responses={204: None, 404: NOT_FOUND})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Revoke it."""
        if not revoke_token(user_behind(request), pk):
            raise Http404
        return Response(status=status.HTTP_204_NO_CONTENT)
