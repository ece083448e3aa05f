"""Courses that look at a problem without any candidate: inspect and baseline."""

from __future__ import annotations

import dataclasses
import math
import time

import torch

from workers.device.judge import mutants
from workers.device.judge.clock import Alternation, BlockResult, longest_block, run_block
from workers.device.judge.compare import Expectation, compare
from workers.device.judge.compiled import compile_model
from workers.device.judge.course import Course
from workers.device.judge.job import Ended, ended_by
from workers.device.judge.link import RunnerFailure, RunnerLink
from workers.device.judge.solo import Solo
from workers.device.judge.timed import QUICK_PRECISE, honest_ratio, unmeasured_above
from workers.protocol.codec import ProtocolError, from_data
from workers.protocol.inspection import Inspection, Mutant
from workers.protocol.problem import Precision, Stage
from workers.protocol.verdict import Baseline, Status

BASELINE_BUDGET_S = 4.0


class ProblemCourse(Course):
    """Admission: does the problem run, is it deterministic, does it depend on its inputs; its graph."""

    values: dict[str, torch.Tensor]
    """The parameters that the reference has."""
    inputs: list[torch.Tensor]
    """Contents of input set 0 when the problem was loaded."""
    tried: tuple[Mutant, ...] = ()

    def _stages(self) -> None:
        with self._timed("load"):
            self._load_alone([self.reference])
        if Stage.INSPECT in self.job.request.stages:
            with self._timed("inspect"):
                self._admit()
                self._inspect()
        if Stage.BASELINE in self.job.request.stages:
            with self._timed("baseline"):
                self._baseline(self.links["compile"])

    def _conclusion(self) -> tuple[Status, str]:
        if "baseline" in self.parts:
            ratio = self.parts["baseline"].compile_over_eager
            return Status.PASSED, f"torch.compile runs at {ratio.median:.2f}x the speed of eager."
        inspection: Inspection = self.parts["inspection"]
        return (
            Status.PASSED,
            f"Runs, is deterministic and depends on its inputs: {len(inspection.nodes)} operators, "
            f"{inspection.eager_ms or 0.0:.2f} ms in eager.",
        )

    def _load_alone(self, links: list[RunnerLink]) -> None:
        self.load_problem()
        self.values = self.bench.draw_parameters()
        self.bench.load_parameters(links, self.values)
        self.bench.allocate(links, 2)
        self.inputs = self.bench.fill([0, 1])[0]
        try:
            self.bench.learn_structure()
        except RunnerFailure as failure:
            raise ended_by(failure, "model.py", "failed when called") from failure

    def _admit(self) -> None:
        bench = self.bench
        if not bench.specs:
            raise _refuse(
                "get_inputs() gives no tensor; a problem needs at least one input tensor."
            )
        if all(spec.law == "constant" for spec in bench.specs):
            raise _refuse(
                "get_inputs() gives the same contents whatever the seed, so no output can be told from a "
                "constant: draw them with torch.randn or the like, and set no seed in it."
            )
        first, again, other = bench.eager(0), bench.eager(0), bench.eager(1)
        if not first:
            raise _refuse("forward returns no tensor; a problem needs at least one output tensor.")
        if not bench.unchanged(self.reference, 0, self.inputs):
            raise _refuse(
                "forward changes its inputs; let it compute into tensors of its own, as with x = x * 2 in "
                "place of x.mul_(2)."
            )
        for a, b in zip(first, again, strict=True):
            if not _same(a, b):
                raise _refuse(
                    "The model is not deterministic: two calls on the same inputs differ. Remove random "
                    "operators such as dropout, or call .eval() in the constructor."
                )
        for a in first:
            if a.dtype.is_floating_point and not bool(torch.isfinite(a).all()):
                raise _refuse(
                    "The model's output holds NaN or infinity; give inputs for which it is finite."
                )
        if all(_same(a, b) for a, b in zip(first, other, strict=True)):
            raise _refuse("The output does not depend on the inputs, so any constant would pass.")
        self._try_mutants(first, other)

    def _try_mutants(self, first: list[torch.Tensor], other: list[torch.Tensor]) -> None:
        """Put wrong answers to the comparison; refuses the problem where the laziest ones pass."""
        bench, precision = self.bench, self.job.request.precision
        expected, _ = bench.expect(0, first)
        tried = []
        for name, outputs in mutants.simple_mutants(bench, first, other, self.inputs).items():
            if not mutants.caught(expected, outputs, precision):
                raise _refuse(mutants.ADVICE[name])
            tried.append(Mutant(name, True))
        tried += mutants.halves(bench, self.values, self.inputs, expected, precision)
        tried += mutants.without_parameters(bench, self.values, expected, precision)
        bench.load_parameters([self.reference], self.values)
        self.tried = tuple(tried)

    def _inspect(self) -> None:
        bench = self.bench
        reply = self.reference.command("inspect", 120.0, index=0)
        if reply.get("problem"):
            raise _refuse(str(reply["problem"])[:400])
        try:
            inspection = from_data(Inspection, reply["inspection"])
        except ProtocolError as error:
            raise Ended(Status.INFRASTRUCTURE, f"The inspection is malformed: {error}") from error
        self.reference.freeze()
        eager_ms = Solo(bench, self.noop, self.canary).first().middle
        self.parts["inspection"] = dataclasses.replace(
            inspection,
            eager_ms=round(eager_ms, 4),
            floor_ms=round(inspection.bytes_moved / copy_bandwidth() * 1e3, 4),
            torch_version=self.reference.torch_version,
            constructor=tuple(bench.constructor),
            input_names=tuple(bench.argument_names),
            mutants=self.tried,
        )

    def _baseline(self, compiled: RunnerLink) -> None:
        seconds = compile_model(self.bench, compiled, [self.reference], self.files.problem)
        self.parts["baseline"] = self._alternate_alone(compiled, seconds)

    def _alternate_alone(self, compiled: RunnerLink, seconds: float) -> Baseline:
        self.reference.freeze()
        block = run_block(self.reference, [0], self.bench.call_limit_s)
        size = sum(o.numel() * o.element_size() for o in block.outputs)
        self.reference.release()
        self.reference.freeze()
        longest = self.bench.affordable(longest_block(block.net_ms, self.bench.input_bytes, size))
        self.bench.allocate([self.reference, compiled], longest)
        measured = Alternation(
            (self.reference, compiled),
            self.noop,
            self.canary,
            longest,
            self.bench.fill,
            _nothing_to_check,
            call_limit_s=self.bench.call_limit_s,
            budget_s=BASELINE_BUDGET_S,
            acceptable=unmeasured_above(self.job),
            precise=QUICK_PRECISE,
        ).run()
        ratio = honest_ratio(measured, self.job)
        return Baseline(
            eager=measured.arm("eager"),
            compile=measured.arm("compile"),
            compile_over_eager=ratio,
            compile_seconds=round(seconds, 2),
            blocks=measured.all_blocks(),
        )


def copy_bandwidth() -> float:
    """Bytes per second, read and written, of a large copy on one thread: what no kernel can beat by much."""
    source = torch.ones(8 << 20, dtype=torch.float32)
    target = torch.empty_like(source)
    target.copy_(source)
    best = math.inf
    for _ in range(3):
        started = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - started)
    return 2 * source.numel() * 4 / best


def _nothing_to_check(
    eager: BlockResult, other: BlockResult, index: int, contents: list[torch.Tensor]
) -> None:
    """Both arms are the problem's own; nobody gains by a wrong output."""


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or not a.dtype.is_floating_point:
        return torch.equal(a, b)
    return compare("", Expectation(a, None), b, Precision.IEEE).passed


def _refuse(message: str) -> Ended:
    return Ended(Status.REJECTED, message)
