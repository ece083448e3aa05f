"""`Authorization: Bearer wsp_…`."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from webapp.api.tokens import user_of
from webapp.teams.models import User


class TokenAuthentication(BaseAuthentication):
    """Recognises API tokens; leaves requests without one to the session cookie."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        """The token's user; None without a token; 401 for a token that is not good."""
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != b"bearer":
            return None
        if len(parts) != 2:
            raise AuthenticationFailed("Write the header as: Authorization: Bearer wsp_…")
        user = user_of(parts[1].decode("latin-1"))
        if user is None:
            raise AuthenticationFailed("This token is unknown, revoked or expired; make a new one.")
        return user, None

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return 'Bearer realm="warpsmith"'
