"""Making users and teams, and signing in by link."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from webapp.teams.models import EntryLink, Membership, Role, Team, User

ENTRY_LINK_HOURS = 12


def ensure_team(name: str, owner: User) -> Team:
    """The team of this name, made with its owner if it does not exist."""
    with transaction.atomic():
        team, _ = Team.objects.get_or_create(
            slug=slugify(name)[:60] or "team", defaults={"name": name}
        )
        Membership.objects.get_or_create(team=team, user=owner, defaults={"role": Role.OWNER})
    return team


def add_member(team: Team, user: User, role: Role = Role.MEMBER) -> Membership:
    """Put a user into a team, or give a member another role."""
    membership, _ = Membership.objects.update_or_create(
        team=team, user=user, defaults={"role": role}
    )
    return membership


def make_entry_link(user: User, hours: float = ENTRY_LINK_HOURS) -> str:
    """A path on this site that signs the user in once within some hours."""
    token = secrets.token_urlsafe(32)
    EntryLink.objects.create(
        user=user, token_hash=_hash(token), expires_at=timezone.now() + timedelta(hours=hours)
    )
    return f"/accounts/enter/{token}/"


def redeem_entry_link(token: str) -> User | None:
    """The user whom a link signs in, or None when it is unknown, used or too old. Good once."""
    now = timezone.now()
    unused = EntryLink.objects.filter(
        token_hash=_hash(token), used_at=None, expires_at__gt=now, user__is_active=True
    )
    link = unused.select_related("user").first()
    if link is None or unused.update(used_at=now) != 1:
        return None
    return link.user


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
