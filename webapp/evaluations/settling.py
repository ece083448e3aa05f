"""Writing a verdict down, and what follows from it for the problem."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from webapp.evaluations.models import Baseline, Evaluation, EvaluationState
from webapp.evaluations.services import request_evaluation
from webapp.events.bells import call_for_hosts
from webapp.problems.models import Problem
from webapp.problems.services import record_admission
from workers.protocol.codec import to_data
from workers.protocol.problem import Stage
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Status

_OVER = (EvaluationState.DONE, EvaluationState.LOST)


def settle(evaluation_id: UUID, verdict: Verdict, *, lost: bool = False) -> bool:
    """Record the verdict of an evaluation that has none yet; tells whether this call did it."""
    with transaction.atomic():
        waiting = Evaluation.objects.filter(pk=evaluation_id).exclude(state__in=_OVER)
        state = EvaluationState.LOST if lost else EvaluationState.DONE
        now = timezone.now()
        if waiting.update(state=state, finished_at=now, **_columns(verdict)) != 1:
            return False
        evaluation = Evaluation.objects.select_related("problem__team").get(pk=evaluation_id)
        if Stage.INSPECT in verdict.stages:
            _admit(evaluation.problem, verdict)
        if verdict.baseline is not None and verdict.status is Status.PASSED:
            _keep_baseline(evaluation, verdict)
    return True


def _admit(problem: Problem, verdict: Verdict) -> None:
    passed = verdict.status is Status.PASSED
    if record_admission(problem.pk, passed, verdict.summary):
        # Sessions may have been queued while the problem was checked.
        transaction.on_commit(call_for_hosts)
        if passed:
            request_baseline(problem)


def request_baseline(problem: Problem) -> Evaluation:
    """Ask for torch.compile's ratio, in the background: it takes a while and nobody waits for it."""
    return request_evaluation(problem, None, (Stage.BASELINE,), background=True)


def _keep_baseline(evaluation: Evaluation, verdict: Verdict) -> None:
    assert verdict.baseline is not None
    ratio = verdict.baseline.compile_over_eager
    Baseline.objects.update_or_create(
        problem=evaluation.problem,
        device_name=evaluation.device_name,
        torch_version=evaluation.torch_version,
        precision=evaluation.precision,
        defaults={
            "evaluation": evaluation,
            "ratio_median": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "pairs": ratio.pairs,
            "announced_at": None,
        },
    )


def _eager_ms(verdict: Verdict) -> float | None:
    if verdict.timing is not None:
        return verdict.timing.eager.per_call_ms
    return verdict.inspection.eager_ms if verdict.inspection is not None else None


def _columns(verdict: Verdict) -> dict[str, Any]:
    """The parts of a verdict that lists show and sort by."""
    timing = verdict.timing
    speedup = timing.speedup_eager if timing else None
    return {
        "verdict_data": to_data(verdict),
        "status": verdict.status.value,
        "summary": verdict.summary,
        "held": verdict.held,
        "certified": verdict.certified,
        "speedup_median": speedup.median if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "eager_ms": _eager_ms(verdict),
        "candidate_ms": timing.candidate.per_call_ms if timing else None,
        "device_name": verdict.device.name[:200] if verdict.device else "",
        "torch_version": verdict.environment.torch[:60] if verdict.environment else "",
    }
