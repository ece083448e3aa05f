"""The Content-Security-Policy header.

Pages load scripts, styles, workers and sockets from this site alone and run nothing inline. The admin
is django-unfold, whose Alpine evaluates expressions and whose templates set styles inline: it gets a
policy of its own, still without other origins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponseBase

_COMMON: Final = (
    "default-src 'self'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; "
)
SITE_POLICY: Final = _COMMON + "script-src 'self'; worker-src 'self'; style-src 'self'"
ADMIN_POLICY: Final = _COMMON + "script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class ContentSecurityPolicy:
    """Adds the policy to each response that has none yet."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        policy = ADMIN_POLICY if request.path.startswith("/admin/") else SITE_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response
