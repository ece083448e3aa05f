"""Tokens for the REST interface."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from webapp.common.models import Identified
from webapp.teams.models import User


class ApiToken(Identified):
    """Speaks for a user. Only a hash is kept; the token is shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    hint = models.CharField(max_length=12)
    """The token's first characters, so that people can tell theirs apart."""
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"
