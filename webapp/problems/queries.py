"""Looking up problems."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.common.artifacts import artifact_store
from webapp.problems.models import Problem
from webapp.teams.queries import Visitor, teams_of
from workers.artifacts import get_files


def visible_to(user: Visitor) -> QuerySet[Problem]:
    """The problems of the user's teams, newest first."""
    return Problem.objects.filter(team__in=teams_of(user).order_by())


def files_of(problem: Problem) -> dict[str, bytes]:
    """`model.py` and, where one was given, `problem.toml`. Raises `ArtifactMissing` when they are gone."""
    return get_files(artifact_store(), problem.digest)
