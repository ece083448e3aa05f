"""Who asks."""

from __future__ import annotations

from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from webapp.teams.models import User


def user_behind(request: Request) -> User:
    """The signed-in user of a request, by token or cookie."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user
