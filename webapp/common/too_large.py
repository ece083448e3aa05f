"""Requests that are larger than anything that this site takes."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import bad_request

from webapp.common.formats import bytes_size


def refuse(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page for requests that cannot be read (`handler400`); one that is too large says so."""
    if isinstance(exception, RequestDataTooBig):
        return render(request, "413.html", {"limit": size_limit()}, status=413)
    return bad_request(request, exception)


def size_limit() -> str:
    """The largest request, for people."""
    return bytes_size(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
