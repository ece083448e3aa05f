"""torch.compile as a third arm: the problem's model.py in a runner of its own, wider than the others."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

import torch

from workers.device.judge.bench import Bench, paths_of
from workers.device.judge.clock import Alternation, BlockResult, Measurement
from workers.device.judge.job import Ended, ended_by
from workers.device.judge.link import RunnerFailure, RunnerLink
from workers.device.judge.timed import (
    FULL_PRECISE,
    TimedStage,
    honest_ratio,
    longest_of,
    unmeasured_above,
)
from workers.device.judge.verify import Verified, timed_check
from workers.protocol.diagnostics import Finding
from workers.protocol.verdict import Status, Timing

COMPILE_LIMIT_S = 300.0
BUDGET_S = 6.0


def compile_model(
    bench: Bench, compiled: RunnerLink, others: list[RunnerLink], files: dict[str, bytes]
) -> float:
    """Load the problem into the runner, compile it in its first call; returns the seconds of that.

    All runners get the same new parameters. Raises `Ended` where torch.compile cannot do it.
    """
    links = [*others, compiled]
    try:
        Bench(compiled, bench.call_limit_s, seed=bench.seed).load_problem(files)
        compiled.command("compile", 30.0)
        bench.load_parameters(links, bench.draw_parameters())
        bench.allocate(links, 2)
        bench.fill([0])
        started = time.monotonic()
        compiled.thaw()
        compiled.set_timeout(COMPILE_LIMIT_S)
        compiled.go(0)
        seconds = time.monotonic() - started
        compiled.release()
        compiled.freeze()
    except RunnerFailure as failure:
        if failure.role != "compile":
            raise
        raise ended_by(failure, "torch.compile", "failed on this model") from failure
    return seconds


@dataclass
class CompiledArm:
    """Alternates torch.compile and a candidate that has been timed against eager already."""

    stage: TimedStage
    compiled: RunnerLink
    files: dict[str, bytes]
    checked: int = field(default=0, init=False)

    def add_to(self, timing: Timing, seen: Verified) -> Timing:
        """The timing with the third arm in it; without it, and with a note, where that cannot be had."""
        try:
            return self._added(timing, seen)
        except Ended as end:
            if end.status in (Status.INCORRECT, Status.REJECTED):
                raise  # a candidate that was wrong in one of these calls is wrong
            why = end.summary
        except RunnerFailure as failure:
            if failure.role != "compile":
                raise
            why = ended_by(failure, "torch.compile", "failed in a timed call").summary
        note = f"There is no speed-up against torch.compile. {why}"
        self.stage.findings.append(Finding("no_compile_arm", note))
        return timing

    def _added(self, timing: Timing, seen: Verified) -> Timing:
        measured = self._measured(seen)
        ratio = honest_ratio(measured, self.stage.job)
        offset = len(timing.blocks)
        blocks = [dataclasses.replace(b, order=offset + b.order) for b in measured.all_blocks()]
        return dataclasses.replace(
            timing,
            compile=measured.arm("compile"),
            speedup_compile=self.stage.charged(measured, ratio),
            blocks=(*timing.blocks, *blocks),
        )

    def _measured(self, seen: Verified) -> Measurement:
        stage, bench = self.stage, self.stage.bench
        others = [bench.reference, stage.candidate]
        compile_model(bench, self.compiled, others, self.files)
        longest = longest_of(bench, seen)
        bench.allocate([*others, self.compiled], longest)
        return Alternation(
            (self.compiled, stage.candidate),
            stage.noop,
            stage.canary,
            longest,
            bench.fill,
            self._check,
            call_limit_s=bench.call_limit_s,
            budget_s=BUDGET_S,
            acceptable=unmeasured_above(stage.job),
            precise=FULL_PRECISE,
        ).run()

    def _check(
        self, compiled: BlockResult, mine: BlockResult, index: int, contents: list[torch.Tensor]
    ) -> None:
        """As against eager, with eager's own outputs: torch.compile may differ from it, that is not at issue."""
        stage = self.stage
        if not stage.bench.unchanged(stage.candidate, index, contents):
            raise Ended(Status.INCORRECT, "Inputs: a timed call changed its input tensors.")
        stage.places(self.compiled, compiled, mine)
        eager = dataclasses.replace(compiled, outputs=stage.bench.eager(index))
        stage.bench.reference.freeze()
        wrong = timed_check(
            paths_of(stage.bench.structure), stage.job.request.precision, eager, mine
        )
        if wrong:
            raise Ended(Status.INCORRECT, f"{wrong}.")
        self.checked += 1
