"""Who works here: users, teams, memberships, and one-time links to sign in."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models

from webapp.common.models import Identified


class User(AbstractUser):
    """A person. Rights inside a team come from `Membership`; `is_staff` opens the admin."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


class Role(models.TextChoices):
    """What a member may do in a team."""

    OWNER = "owner", "Owner"
    ADMIN = "admin", "Admin"
    MEMBER = "member", "Member"


class Team(Identified):
    """All problems, sessions and verdicts belong to a team and are seen by its members alone."""

    name = models.CharField(max_length=100)
    slug = models.SlugField(max_length=60, unique=True)
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="teams"
    )

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(Identified):
    """A user in a team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team} ({self.role})"


class EntryLink(Identified):
    """A link that signs its user in once. Only a hash of its token is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="entry_links")
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"entry of {self.user}"
