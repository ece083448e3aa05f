"""Who belongs where."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from webapp.teams.models import Membership, Team, User

Visitor = User | AnonymousUser


def teams_of(user: Visitor) -> QuerySet[Team]:
    """The teams of a user, oldest membership first; none for somebody who is not signed in."""
    if not user.is_authenticated or not user.is_active:
        return Team.objects.none()
    return Team.objects.filter(memberships__user=user).order_by("memberships__created_at")


def first_team(user: Visitor) -> Team | None:
    """The team that new things go to when none was named."""
    return teams_of(user).first()


def is_member(user: Visitor, team_id: UUID) -> bool:
    """Whether an active user belongs to a team. Superusers have no other eyes here: they use the admin."""
    if not user.is_authenticated or not user.is_active:
        return False
    return Membership.objects.filter(user=user, user__is_active=True, team_id=team_id).exists()
