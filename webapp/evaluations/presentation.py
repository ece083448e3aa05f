"""A verdict as its page shows it. Nothing is measured or decided here, only put into words and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.evaluation.score import fit_line
from workers.protocol.codec import Json
from workers.protocol.problem import Precision, Stage, Tier
from workers.protocol.verdict import Block, Evaluation, OutputError, Status, Timing

ARM_NAMES = {
    "eager": "Eager",
    "compile": "torch.compile",
    "candidate": "Candidate",
    "noop": "Empty call",
}


@dataclass(frozen=True)
class OutputRow:
    """One output of one compared call."""

    case: str
    output: str
    error: OutputError
    nearness: float
    """The larger of both errors over its limit: above 1 it fails."""


def output_rows(verdict: Evaluation) -> list[OutputRow]:
    """The correctness table, failures first."""
    if verdict.correctness is None:
        return []
    rows = [
        OutputRow(case.name, output.path or "output", output, _nearness(output))
        for case in verdict.correctness.cases
        for output in case.outputs
    ]
    return sorted(rows, key=lambda row: row.error.passed)


def plot_series(timing: Timing) -> list[dict[str, Json]]:
    """Raw blocks per arm, calls against milliseconds, with the line that the clock's own fit gives them."""
    return [_series(arm, blocks) for arm in ARM_NAMES if (blocks := _blocks_of(timing, arm))]


def limits_of(verdict: Evaluation) -> list[str]:
    """What this verdict does not prove, in sentences that hold for it."""
    said = [*_limits_of_correctness(verdict), *_limits_of_timing(verdict)]
    if verdict.authorship is not None:
        said.append(
            "The stub replay shows that the output depends on the candidate's kernels and how much of the "
            "time they take; it does not show that no other code helps."
        )
    if verdict.environment is not None and verdict.environment.sandbox == "none":
        said.append("The candidate ran without a sandbox on this host.")
    return said


def compared_calls(verdict: Evaluation) -> int:
    """Calls whose outputs were compared, timed ones included."""
    if verdict.correctness is None:
        return 0
    return len(verdict.correctness.cases) + verdict.correctness.timed_calls_checked


def severities(verdict: Evaluation) -> dict[tuple[str, int], str]:
    """Lines that a tool spoke about, the gravest message of each."""
    marks: dict[tuple[str, int], str] = {}
    for item in verdict.diagnostics:
        if item.file and item.line and marks.get((item.file, item.line)) != "error":
            marks[(item.file, item.line)] = item.severity.value
    return marks


def stage_words(stages: Sequence[Stage]) -> str:
    """What was asked for, such as `build, verify, time`."""
    return ", ".join(stage.value for stage in stages)


def _blocks_of(timing: Timing, arm: str) -> list[Block]:
    return [block for block in timing.blocks if block.arm == arm]


def _series(arm: str, blocks: Sequence[Block]) -> dict[str, Json]:
    """Time in which the judge itself copied is not charged to the arm, so it is not drawn either."""
    points = [(block.calls, block.total_ms - block.copy_ms) for block in blocks]
    calm = [point for point, block in zip(points, blocks, strict=True) if not block.disturbed]
    line = fit_line(calm) if len({calls for calls, _ in calm}) > 1 else None
    return {
        "arm": arm,
        "name": ARM_NAMES[arm],
        "blocks": [
            {"calls": calls, "total_ms": total, "order": block.order}
            for (calls, total), block in zip(points, blocks, strict=True)
        ],
        "slope": line.slope_ms if line else None,
        "intercept": line.intercept_ms if line else None,
    }


def _nearness(output: OutputError) -> float:
    parts = ((output.rms_error, output.rms_limit), (output.max_error, output.max_limit))
    return max((error / limit if limit > 0 else float(error > 0) * 2) for error, limit in parts)


def _limits_of_correctness(verdict: Evaluation) -> list[str]:
    if verdict.correctness is None:
        return ["Nothing is said about correctness: the outputs were not compared."]
    said = [
        f"The outputs agree on the {compared_calls(verdict)} calls that were compared, with contents that the "
        "judge drew; it is no proof for every input."
        if verdict.status in (Status.PASSED, Status.UNMEASURED, Status.REJECTED)
        else "One difference is enough to fail; what else may be wrong was not searched for."
    ]
    if verdict.tier is Tier.QUICK:
        said.append(
            "Quick tier: the shapes of the upload alone, one set of parameters, no extreme values. "
            "The full tier varies them."
        )
    if verdict.precision is Precision.PAPER:
        said.append("Paper precision: wide tolerances, for comparing with published numbers only.")
    return said


def _limits_of_timing(verdict: Evaluation) -> list[str]:
    if verdict.timing is None:
        return []
    device = verdict.device
    where = f" on {device.name} with {_threads(device.threads)}" if device else ""
    said = [
        f"The times hold{where}, inputs out of cache and parameters warm; "
        "another machine, shape or load gives others."
    ]
    if verdict.timing.host_bound:
        said.append(
            "Below 0.1 ms per call the call itself dominates: the kernel may gain more than is seen."
        )
    if verdict.held:
        said.append("More than ten times faster: held until a full evaluation has confirmed it.")
    return said


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"
