"""The same pair judged again and again: how well the speed-up repeats on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from workers.artifacts import ArtifactStore
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.run import evaluate
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Evaluation, Status


@dataclass(frozen=True)
class Repeated:
    """What so many verdicts on one pair said."""

    judged: int
    speedups: tuple[float, ...]
    """Medians of the measured ones, in order."""
    unmeasured: int
    """Verdicts that gave no number because the machine was too busy."""
    covered: int
    """Measured ones whose 95 % interval holds the median of all."""
    kernel_ms: float
    """The candidate's time per call, median."""
    seconds: float
    """Wall time of one verdict, median."""

    @property
    def variation(self) -> float:
        """Coefficient of variation of the speed-up: standard deviation over mean."""
        if len(self.speedups) < 2:
            return 0.0
        return statistics.stdev(self.speedups) / statistics.mean(self.speedups)


class NotRepeatable(ValueError):
    """A verdict that says something against the pair; its sentence is the message."""


def repeat(
    request: EvaluateRequest,
    store: ArtifactStore,
    config: WorkerConfig,
    times: int,
    on_verdict: Callable[[Evaluation], None],
) -> Repeated:
    """Judge so many times, one after the other; raises `NotRepeatable` unless passed or unmeasured."""
    supervisor = DeviceSupervisor(config, store)
    measured, seconds = [], []
    try:
        for _ in range(times):
            started = time.monotonic()
            verdict = evaluate(request, store, config, supervisor)
            seconds.append(time.monotonic() - started)
            if verdict.status not in (Status.PASSED, Status.UNMEASURED):
                raise NotRepeatable(verdict.summary)
            on_verdict(verdict)
            if verdict.timing is not None:
                measured.append(verdict.timing)
    finally:
        supervisor.close()
    ratios = [timing.speedup_eager for timing in measured]
    middle = statistics.median([ratio.median for ratio in ratios] or [0.0])
    return Repeated(
        judged=times,
        speedups=tuple(ratio.median for ratio in ratios),
        unmeasured=times - len(measured),
        covered=sum(ratio.low <= middle <= ratio.high for ratio in ratios),
        kernel_ms=statistics.median([t.candidate.per_call_ms for t in measured] or [0.0]),
        seconds=statistics.median(seconds),
    )
