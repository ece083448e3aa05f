"""Whether the web process answers and reaches its database."""

from __future__ import annotations

from django.db import connection
from django.http import HttpRequest, HttpResponse


def health(_request: HttpRequest) -> HttpResponse:
    """200 `ok`; an unreachable database gives 500."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain")
