"""Verdicts, and what is known beside them."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.evaluations.models import Baseline, Evaluation, EvaluationState, Job, JobState
from webapp.problems.models import Problem
from webapp.teams.queries import Visitor, teams_of
from workers.protocol.inspection import Inspection
from workers.protocol.problem import Stage
from workers.protocol.verdict import Ratio, Status


def visible_to(user: Visitor) -> QuerySet[Evaluation]:
    """The evaluations of the user's teams, newest first."""
    mine = Evaluation.objects.filter(team__in=teams_of(user).order_by())
    return mine.select_related("problem", "snapshot")


def inspect_evaluation(problem: Problem) -> Evaluation | None:
    """The newest finished look at the problem alone."""
    done = Evaluation.objects.filter(
        problem=problem, snapshot=None, state=EvaluationState.DONE
    ).order_by("-finished_at")
    return next((e for e in done if Stage.INSPECT.value in e.stages), None)


def inspection_of(problem: Problem) -> Inspection | None:
    """The problem's graph, shapes and work; None until the judge has looked at it."""
    evaluation = inspect_evaluation(problem)
    verdict = evaluation.verdict if evaluation else None
    return verdict.inspection if verdict else None


def baseline_of(problem: Problem) -> Baseline | None:
    """The newest torch.compile ratio of a problem, on whatever device."""
    return Baseline.objects.filter(problem=problem).order_by("-created_at").first()


def baseline_pending(problem: Problem) -> bool:
    """Whether a torch.compile ratio is still to come."""
    return Job.objects.filter(
        evaluation__problem=problem,
        background=True,
        state__in=(JobState.IDLE, JobState.QUEUED, JobState.RUNNING),
    ).exists()


def baseline_for(evaluation: Evaluation) -> Baseline | None:
    """The ratio that was taken as this evaluation was: same device, versions and precision."""
    return Baseline.objects.filter(
        problem=evaluation.problem,
        device_name=evaluation.device_name,
        torch_version=evaluation.torch_version,
        precision=evaluation.precision,
    ).first()


def speedup_eager(evaluation: Evaluation) -> Ratio | None:
    """The speed-up against eager; None for a verdict without a time."""
    verdict = evaluation.verdict
    if verdict is None or verdict.timing is None or verdict.status is not Status.PASSED:
        return None
    return verdict.timing.speedup_eager


def speedup_compile(evaluation: Evaluation) -> Ratio | None:
    """The speed-up against torch.compile; None while its ratio is unknown.

    Measured where the judge timed torch.compile beside the candidate. Else the speed-up against eager
    over what torch.compile gains over eager, with the interval combined conservatively: the low end
    divided by the other's high end and the other way round.
    """
    verdict = evaluation.verdict
    if verdict is None or verdict.timing is None or verdict.status is not Status.PASSED:
        return None
    if verdict.timing.speedup_compile is not None:
        return verdict.timing.speedup_compile
    baseline = baseline_for(evaluation)
    eager = verdict.timing.speedup_eager
    if baseline is None:
        return None
    return Ratio(
        median=eager.median / baseline.ratio_median,
        low=eager.low / baseline.ratio_high,
        high=eager.high / baseline.ratio_low,
        pairs=min(eager.pairs, baseline.pairs),
    )


def evaluations_of(problem: Problem) -> QuerySet[Evaluation]:
    """Evaluations of candidates for a problem, newest first."""
    return Evaluation.objects.filter(problem=problem, snapshot__isnull=False).select_related(
        "snapshot"
    )
