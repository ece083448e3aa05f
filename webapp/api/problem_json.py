"""Errors as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, and `field` if one is meant."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework.exceptions import APIException, ErrorDetail, NotFound, ValidationError
from rest_framework.exceptions import PermissionDenied as Forbidden
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import set_rollback

from webapp.common.errors import UserError
from webapp.common.too_large import size_limit

CONTENT_TYPE = "application/problem+json"


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn what a view raised into a problem; anything unknown stays a 500 of Django's."""
    if isinstance(error, UserError):
        _answer_in_json(context)
        return _respond(HTTPStatus.BAD_REQUEST, error.sentence, field=error.field)
    if isinstance(error, RequestDataTooBig):
        _answer_in_json(context)
        sentence = f"The request is larger than {size_limit()}; send the source alone."
        return _respond(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
    if isinstance(error, Http404):
        error = NotFound()
    elif isinstance(error, PermissionDenied):
        error = Forbidden()
    if not isinstance(error, APIException):
        return None
    set_rollback()
    _answer_in_json(context)
    field, sentence = _first(error.detail) if isinstance(error, ValidationError) else ("", "")
    response = _respond(HTTPStatus(error.status_code), sentence or str(error.detail), field=field)
    challenge = getattr(error, "auth_header", None)
    if challenge:
        response["WWW-Authenticate"] = challenge
    wait = getattr(error, "wait", None)
    if wait:
        response["Retry-After"] = str(int(wait))
    return response


def _answer_in_json(context: dict[str, Any]) -> None:
    """Problems are JSON, whatever form the answer would have had."""
    request = context.get("request")
    if request is not None:
        request.accepted_renderer = JSONRenderer()
        request.accepted_media_type = CONTENT_TYPE


def _respond(status: HTTPStatus, detail: str, *, field: str = "") -> Response:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    if field:
        body["field"] = field
    return Response(body, status=status.value, content_type=CONTENT_TYPE)


def _first(detail: Any, path: str = "") -> tuple[str, str]:
    """The first message inside DRF's nested errors, and where it is."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        place = "" if name == "non_field_errors" else str(name)
        return _first(inner, f"{path}.{place}".strip("."))
    if isinstance(detail, list):
        return _first(detail[0], path)
    message = str(detail)
    if isinstance(detail, ErrorDetail) and detail.code == "required":
        message = f"{path} is missing."
    return path, message
