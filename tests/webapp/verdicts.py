"""Answers as a worker would leave them."""

from __future__ import annotations

from webapp.common.artifacts import artifact_store
from webapp.evaluations.hints import message_of
from webapp.evaluations.models import Job
from workers.protocol.codec import to_json
from workers.protocol.problem import Target
from workers.protocol.requests import BuildResult, BuildStatus, EvaluateRequest, JobAnswer
from workers.protocol.verdict import (
    ArmTiming,
    Baseline,
    DeviceInfo,
    Environment,
    Evaluation,
    Ratio,
    Status,
    Timing,
)

DEVICE = DeviceInfo("Test CPU", Target.CPU)
ENVIRONMENT = Environment("0.1.0", "3.11", "2.13.0", "g++", "bubblewrap")
BUILT = BuildResult(BuildStatus.BUILT, "Built.", library="a" * 64, namespace="ws_test", seconds=0.5)


def timing(speedup: Ratio) -> Timing:
    arm = ArmTiming(per_call_ms=1.0, intercept_ms=0.0, single_ms=1.0, blocks=4)
    return Timing(arm, arm, speedup, noop_per_call_ms=0.01, blocks=())


def verdict(
    request: EvaluateRequest, status: Status = Status.PASSED, speedup: Ratio | None = None
) -> Evaluation:
    return Evaluation(
        status=status,
        summary=f"It is {status}.",
        problem=request.problem,
        snapshot=request.snapshot,
        target=request.target,
        tier=request.tier,
        precision=request.precision,
        stages=request.stages,
        timing=timing(speedup) if speedup else None,
        device=DEVICE,
        environment=ENVIRONMENT,
    )


def baseline(request: EvaluateRequest, ratio: Ratio) -> Evaluation:
    arm = ArmTiming(per_call_ms=1.0, intercept_ms=0.0, single_ms=1.0, blocks=4)
    base = verdict(request)
    return Evaluation(
        **{**base.__dict__, "baseline": Baseline(arm, arm, ratio, compile_seconds=3.0)}
    )


def leave(job: Job, result: object) -> str:
    """Put an answer where the worker would, without telling anybody; returns its digest."""
    digest = artifact_store().put(to_json(result))
    artifact_store().put_ref(message_of(job).result_key, digest)
    return digest


def answer(job: Job, result: object, /, **changes: object) -> JobAnswer:
    """The message with which the worker would report an answer."""
    message = message_of(job)
    digest = artifact_store().put(to_json(result))
    given = {
        "job": message.job,
        "attempt": message.attempt,
        "fence": message.fence,
        "token": message.token,
        "result": digest,
        "worker": "w-1",
    }
    return JobAnswer(**{**given, **changes})


def fresh(job: Job) -> Job:
    return Job.objects.select_related("evaluation__problem__team", "evaluation__snapshot").get(
        pk=job.pk
    )
