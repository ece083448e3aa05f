"""Sessions over REST: start, follow, pause, stop, download."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.people import user_behind
from webapp.api.serializers import EventPageSerializer, SessionSerializer, StartSerializer
from webapp.api.views import NOT_FOUND, REFUSED, Pages
from webapp.common.errors import UserError
from webapp.events.queries import after, last_seq
from webapp.exports.services import source_zip
from webapp.problems.queries import visible_to as visible_problems
from webapp.studio import services
from webapp.studio.models import LIVE_STATES, Session
from webapp.studio.queries import visible_to
from workers.protocol.codec import to_data

MAX_WAIT_SECONDS = 25.0
LOOK_SECONDS = 0.1


class Sessions(ListAPIView[Session]):
    """The sessions of your teams."""

    serializer_class = SessionSerializer
    pagination_class = Pages
    queryset = Session.objects.none()

    def get_queryset(self) -> Any:
        return visible_to(user_behind(self.request))

    @extend_schema(
        request=StartSerializer, responses={202: SessionSerializer, 400: REFUSED, 404: NOT_FOUND}
    )
    def post(self, request: Request) -> Response:
        """Start a session on a problem that is `ready`."""
        given = StartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        user = user_behind(request)
        problem = get_object_or_404(visible_problems(user), pk=given.validated_data["problem"])
        session = services.create_session(user, problem, given.validated_data["author"])
        return Response(SessionSerializer(session).data, status=status.HTTP_202_ACCEPTED)


@extend_schema(responses={200: SessionSerializer, 404: NOT_FOUND})
class OneSession(RetrieveAPIView[Session]):
    """A session, its state, and the best so far."""

    serializer_class = SessionSerializer
    queryset = Session.objects.none()

    def get_queryset(self) -> Any:
        return visible_to(user_behind(self.request))


class SessionEvents(APIView):
    """The event log of a session: the same rows that the live page shows."""

    @extend_schema(
        parameters=[
            OpenApiParameter("after", int, description="Events behind this sequence number."),
            OpenApiParameter("wait", float, description="Wait up to so many seconds (25) for one."),
        ],
        responses={200: EventPageSerializer, 404: NOT_FOUND},
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """A page of events in order, without gaps."""
        session = get_object_or_404(visible_to(user_behind(request)), pk=pk)
        cursor = int(_number(request, "after", 0))
        _wait_for_more(session.pk, cursor, min(_number(request, "wait", 0), MAX_WAIT_SECONDS))
        # The state is read first: what was over before the events were read has no later ones.
        over = not Session.objects.filter(pk=pk, state__in=LIVE_STATES).exists()
        newest = last_seq(session.pk)
        events = [to_data(event) for event in after(session.pk, cursor)]
        return Response({"events": events, "last_seq": newest, "done": over})


class Deed(APIView):
    """Something that a member asks of a session."""

    deed: Any = None

    def post(self, request: Request, pk: UUID) -> Response:
        """Ask for it; the session's state says when it has happened."""
        user = user_behind(request)
        session = get_object_or_404(visible_to(user), pk=pk)
        done = type(self).deed(user, session)
        return Response(SessionSerializer(done).data, status=status.HTTP_202_ACCEPTED)


_as_deed = extend_schema(
    request=None, responses={202: SessionSerializer, 400: REFUSED, 404: NOT_FOUND}
)


@_as_deed
class StopSession(Deed):
    """Stop a session."""

    deed = staticmethod(services.stop_session)


@_as_deed
class PauseSession(Deed):
    """Pause a session at its next tool boundary."""

    deed = staticmethod(services.pause_session)


@_as_deed
class ResumeSession(Deed):
    """Let a paused session go on."""

    deed = staticmethod(services.resume_session)


class SessionSource(APIView):
    """The best kernels of a session as source."""

    @extend_schema(
        responses={
            (200, "application/zip"): OpenApiTypes.BINARY,
            400: REFUSED,
            404: NOT_FOUND,
        }
    )
    def get(self, request: Request, pk: UUID) -> HttpResponse:
        """A zip that builds an installable extension."""
        session = get_object_or_404(visible_to(user_behind(request)), pk=pk)
        name, content = source_zip(session)
        response = HttpResponse(content, content_type="application/zip")
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        return response


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < 2**53:
        raise UserError(f"{name} must be a number that is not negative.", name)
    return value


def _wait_for_more(session_id: UUID, cursor: int, seconds: float) -> None:
    """Wait until there is an event behind the cursor or none can come, at most some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and last_seq(session_id) <= cursor:
        if not Session.objects.filter(pk=session_id, state__in=LIVE_STATES).exists():
            return
        time.sleep(LOOK_SECONDS)
