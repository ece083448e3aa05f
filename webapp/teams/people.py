"""The person behind a request."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from webapp.teams.models import User


def signed_in(request: HttpRequest) -> User:
    """The user of a request that `login_required` let through."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user
