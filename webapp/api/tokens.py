"""API tokens: making, revoking, recognising."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from webapp.api.models import ApiToken
from webapp.common.errors import UserError
from webapp.teams.models import User

PREFIX = "wsp_"
"""Tokens begin with it, so that scanners find leaked ones."""

DEFAULT_DAYS = 30
MAX_DAYS = 365
MAX_PER_USER = 50

USED_PRECISION = timedelta(minutes=1)
"""`last_used_at` is no finer than this, so that reading costs no write."""


def make_token(user: User, name: str, days: int = DEFAULT_DAYS) -> tuple[ApiToken, str]:
    """A new token: its row, and the text that is shown this once. Raises `UserError`."""
    if not 1 <= days <= MAX_DAYS:
        raise UserError(f"A token lives 1 to {MAX_DAYS} days.", "days")
    if not name.strip():
        raise UserError("Give the token a name, so that you can tell yours apart.", "name")
    if valid_tokens().filter(user=user).count() >= MAX_PER_USER:
        raise UserError(f"You have {MAX_PER_USER} tokens; revoke one first.")
    text = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name.strip()[:100],
        hint=text[:8],
        token_hash=_hash(text),
        expires_at=timezone.now() + timedelta(days=days),
    )
    return token, text


def revoke_token(user: User, token_id: UUID) -> bool:
    """End a token of the user; tells whether there was one."""
    mine = ApiToken.objects.filter(pk=token_id, user=user, revoked_at=None)
    return mine.update(revoked_at=timezone.now()) == 1


def user_of(text: str) -> User | None:
    """The user whom a token speaks for; None when it is unknown, revoked or too old."""
    token = valid_tokens().select_related("user").filter(token_hash=_hash(text)).first()
    if token is None or not token.user.is_active:
        return None
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_PRECISION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token.user


def valid_tokens() -> QuerySet[ApiToken]:
    """Tokens that are good now."""
    return ApiToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
