"""Uploading a problem: storing it and asking the judge whether it can be judged.

The judge's answer moves the problem from `checking` to `ready` or `refused` (see `settling`).
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from webapp.evaluations.models import Evaluation, EvaluationState
from webapp.evaluations.services import request_evaluation
from webapp.problems.models import Problem, ProblemState
from webapp.problems.services import create_problem
from webapp.teams.models import Team, User
from workers.protocol.problem import Stage

_OVER = (EvaluationState.DONE, EvaluationState.LOST)


def upload_problem(team: Team, user: User, files: Mapping[str, bytes], title: str = "") -> Problem:
    """Store an upload and have it checked; raises `UserError` with one sentence.

    Files that the team has uploaded before give the problem that exists.
    """
    with transaction.atomic():
        problem = create_problem(team, user, files, title)
        if problem.state == ProblemState.CHECKING and not _is_asked(problem):
            request_evaluation(problem, None, (Stage.INSPECT,))
    return problem


def _is_asked(problem: Problem) -> bool:
    open_ones = Evaluation.objects.filter(problem=problem, snapshot=None).exclude(state__in=_OVER)
    return any(Stage.INSPECT.value in evaluation.stages for evaluation in open_ones)
