"""The catalogue of problems."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.urls import reverse

from webapp.common.models import Identified
from webapp.teams.models import Team, User
from workers.protocol.codec import from_data
from workers.protocol.problem import ProblemSpec


class ProblemState(models.TextChoices):
    """
    checking ─┬─ ready      the judge ran it: deterministic, depends on its inputs
              └─ refused    `reason` says why and what to change
    """

    CHECKING = "checking", "Checking"
    READY = "ready", "Ready"
    REFUSED = "refused", "Refused"


class Problem(Identified):
    """A model file with its spec. Never changed after upload: another file is another problem."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="problems")
    creator = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    title = models.CharField(max_length=120)
    slug = models.SlugField(max_length=80)
    digest = models.CharField(max_length=64)
    """Of the file set in the artifact store; pinned in every verdict."""
    spec_data = models.JSONField(default=dict)
    target = models.CharField(max_length=10)
    state = models.CharField(max_length=10, choices=ProblemState, default=ProblemState.CHECKING)
    reason = models.TextField(blank=True)
    """Why it was refused, one sentence; empty otherwise."""

    class Meta:
        ordering: ClassVar = ["-created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "digest"], name="problem_once_per_team"),
            models.UniqueConstraint(fields=["team", "slug"], name="problem_slug_per_team"),
            models.CheckConstraint(
                condition=models.Q(state__in=ProblemState.values), name="problem_state"
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("problems:detail", args=[self.pk])

    @property
    def spec(self) -> ProblemSpec:
        """`problem.toml`, read."""
        return from_data(ProblemSpec, self.spec_data)
