"""Verdicts that need no judge: failed builds and faults of our own."""

from __future__ import annotations

import dataclasses

from workers.protocol.diagnostics import Finding
from workers.protocol.requests import BuildResult, BuildStatus, EvaluateRequest
from workers.protocol.verdict import Evaluation, Status

_STATUS = {
    BuildStatus.COMPILE_ERROR: Status.COMPILE_ERROR,
    BuildStatus.LINK_ERROR: Status.LINK_ERROR,
    BuildStatus.REJECTED: Status.REJECTED,
    BuildStatus.TIMEOUT: Status.TIMEOUT,
    BuildStatus.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    BuildStatus.INFRASTRUCTURE: Status.INFRASTRUCTURE,
    BuildStatus.BUILT: Status.PASSED,
}


def from_build(request: EvaluateRequest, build: BuildResult) -> Evaluation:
    """A build as a verdict: the whole one where it failed or where nothing else was asked for."""
    status = _STATUS[build.status]
    findings: tuple[Finding, ...] = ()
    if status is Status.REJECTED:
        findings = (Finding("symbols", build.summary, rejects=True),)
    return Evaluation(
        status=status,
        summary=build.summary,
        problem=request.problem,
        snapshot=request.snapshot,
        target=request.target,
        tier=request.tier,
        precision=request.precision,
        stages=request.stages,
        diagnostics=build.diagnostics,
        findings=findings,
        durations_ms={"build": round(1e3 * build.seconds, 1)},
        artifacts=_artifacts(build),
    )


def with_build(evaluation: Evaluation, build: BuildResult) -> Evaluation:
    """The judge's verdict, completed by what the builder knows."""
    return dataclasses.replace(
        evaluation,
        durations_ms={"build": round(1e3 * build.seconds, 1), **evaluation.durations_ms},
        artifacts={**evaluation.artifacts, **_artifacts(build)},
    )


def _artifacts(build: BuildResult) -> dict[str, str]:
    known = {"build_log": build.log, "library": build.library}
    return {name: digest for name, digest in known.items() if digest}


def infrastructure(request: EvaluateRequest, summary: str) -> Evaluation:
    """Our fault: nothing is said about the candidate."""
    return Evaluation(
        status=Status.INFRASTRUCTURE,
        summary=summary,
        problem=request.problem,
        snapshot=request.snapshot,
        target=request.target,
        tier=request.tier,
        precision=request.precision,
        stages=request.stages,
    )


def too_many_threads(request: EvaluateRequest, threads: int, cores: int) -> Evaluation:
    """A problem that asks for more than this device has is refused; a candidate for it cannot be judged here."""
    text = (
        f"problem.toml asks for {threads} threads, but this device has {cores} "
        f"core{'' if cores == 1 else 's'}: ask for at most {cores}."
    )
    verdict = infrastructure(request, text)
    if request.snapshot:
        return verdict
    return dataclasses.replace(
        verdict, status=Status.REJECTED, findings=(Finding("admission", text, rejects=True),)
    )
