"""The clock: blocks of secret length, one go token per call, arms alternated ABBA.

A block starts with the wake-up of a frozen runner, whose inputs were written while it stood, and ends
when the judge holds a secretly chosen call's outputs, copied from the frozen runner. Work that a
candidate does before "go" or after its answer is therefore either impossible or inside the block.
Not covered here: other load on the machine (the interval widens, and the verdict says `unmeasured`).
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from workers.device.judge import processes
from workers.device.judge.link import OutputPlace, RunnerLink, now_ms
from workers.device.judge.spots import Spots, choose_marks, look
from workers.evaluation.score import Line, fit_line, half_width, interval_of_median, paired_ratio
from workers.protocol.verdict import ArmTiming, Block, Ratio
from workers.protocol.wire import Kind

BLOCK_MS = 150.0
LONGEST_BLOCK = 200
MEMORY_PER_ARM = 768 << 20
LENGTHS = 4
# On a busy machine a measurement may take this many times its budget before it is given up.
PATIENCE = 3.0


@dataclass(frozen=True)
class BlockResult:
    """One block: times in ms, where all outputs lay, and the copied outputs of one secret call."""

    calls: int
    total_ms: float
    copy_ms: float
    places: list[list[OutputPlace]]
    picked: int
    outputs: list[torch.Tensor]
    burnt_ms: float = 0.0
    """CPU time that the runner's process used, all threads together."""
    spots: list[Spots] = field(default_factory=list)
    """Marked elements of every call."""

    @property
    def net_ms(self) -> float:
        return self.total_ms - self.copy_ms


def run_block(
    link: RunnerLink,
    sets: Sequence[int],
    limit_s: float,
    picked: int = 0,
    kind: Kind = Kind.GO,
    marks: Sequence[float] = (),
) -> BlockResult:
    """Time one block on a frozen runner; it is frozen again afterwards, its outputs still alive.

    `picked` is the position in `sets` of the call whose outputs are copied before the clock stops;
    the elements at `marks` are read of every call afterwards.
    """
    link.set_timeout(limit_s)
    started = now_ms()
    link.thaw()
    bodies = [link.go(index, kind) for index in sets]
    link.freeze()
    stopped = now_ms()
    burnt_ms = link.burnt_ms
    outputs = link.outputs(bodies[picked])
    held = now_ms()
    places = [link.places(body) for body in bodies]
    spots = [look(link, place, marks) for place in places] if marks else []
    return BlockResult(
        len(sets), held - started, held - stopped, places, picked, outputs, burnt_ms, spots
    )


def overlapping(places: list[list[OutputPlace]]) -> bool:
    """Whether outputs of different calls of a block share memory."""
    spans = sorted(
        (p.address, p.address + p.reach, call)
        for call, outputs in enumerate(places)
        for p in outputs
        if p.reach
    )
    return any(
        later[0] < earlier[1] and later[2] != earlier[2]
        for earlier, later in itertools.pairwise(spans)
    )


def calibrate(link: RunnerLink) -> Line:
    """What a block of calls costs by itself, from the runner's own empty function."""
    points = []
    link.freeze()
    for calls in (1, 4, 8, 16, 2, 24) * 3:
        block = run_block(link, [0] * calls, 10.0, kind=Kind.NOOP)
        link.release()
        link.freeze()
        points.append((calls, block.net_ms))
    link.thaw()
    return fit_line(points)


def choose_lengths(longest: int) -> list[int]:
    """Secret block lengths, one from each quarter of 1..longest, in random order."""
    bounds = [round(i * longest / LENGTHS) for i in range(LENGTHS + 1)]
    lengths = [
        low + 1 + secrets.randbelow(max(high - low, 1)) for low, high in itertools.pairwise(bounds)
    ]
    secrets.SystemRandom().shuffle(lengths)
    return lengths


def longest_block(call_ms: float, input_bytes: int, output_bytes: int) -> int:
    """How many calls a block may have within time and memory; four at least, for four lengths."""
    by_time = int(BLOCK_MS / max(call_ms, 1e-3))
    by_memory = MEMORY_PER_ARM // max(input_bytes + output_bytes, 1)
    return max(LENGTHS, min(by_time, by_memory, LONGEST_BLOCK))


@dataclass
class Measurement:
    """What two alternated arms gave."""

    names: tuple[str, str]
    noop: Line
    blocks: list[Block] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> Ratio:
        return interval_of_median(self.ratios)

    def arm(self, name: str) -> ArmTiming:
        """Slope, intercept and single call of one arm, the no-op taken off."""
        points = [(b.calls, b.total_ms - b.copy_ms) for b in self.blocks if b.arm == name]
        line = fit_line(points)
        # The shortest single call: what a candidate hides in the fixed part is in every one of them,
        # what the machine adds is not.
        single = min((t for n, t in points if n == 1), default=line.at(1))
        return ArmTiming(
            per_call_ms=max(line.slope_ms - self.noop.slope_ms, 1e-6),
            intercept_ms=line.intercept_ms - self.noop.intercept_ms,
            single_ms=max(single - self.noop.at(1), 1e-6),
            blocks=len(points),
        )


@dataclass
class Alternation:
    """Alternates two frozen runners in blocks until the interval of the ratio is narrow.

    `fill(sets)` writes new contents, the same for both arms, and returns them; `check(a, b, index,
    contents)` looks at the blocks of a pair after the clock has stopped and may raise. `index` is the
    input set of the call whose outputs were copied.
    """

    arms: tuple[RunnerLink, RunnerLink]
    noop: Line
    longest: int
    fill: Callable[[Sequence[int]], list[list[torch.Tensor]]]
    check: Callable[[BlockResult, BlockResult, int, list[torch.Tensor]], None]
    call_limit_s: float
    budget_s: float
    """When to stop although the interval is not narrow yet, unless it is too wide to mean anything."""
    acceptable: float
    """Half width of the interval, relative, below which the result can be published."""
    precise: float = 0.01

    def run(self) -> Measurement:
        """Measure; the runners are preferred by the scheduler meanwhile, so that other work waits."""
        with processes.preferred(link.pid for link in self.arms):
            return self._run()

    def _run(self) -> Measurement:
        first, second = self.arms
        result = Measurement((first.role, second.role), self.noop)
        self._warm(result)
        started = time.monotonic()
        rounds = 0
        while True:
            for calls in choose_lengths(self.longest):
                self._quadruple(calls, result)
            rounds += 1
            spent = time.monotonic() - started
            width = half_width(result.ratio)
            if rounds >= 2 and width <= self.precise:
                return result
            # Another round costs as much as the past ones did on average.
            expected = spent * (1 + 1 / rounds)
            budget = self.budget_s if width <= self.acceptable else PATIENCE * self.budget_s
            if expected > budget:
                return result

    def _warm(self, result: Measurement) -> None:
        """Touch all memory once, then take the single calls."""
        for link in self.arms:
            self.fill(range(self.longest))
            self._block(link, list(range(self.longest)))
        for _ in range(3):
            for role, block in self._pair(self.arms, [0], 0).items():
                self._keep(role, block, result)

    def _quadruple(self, calls: int, result: Measurement) -> None:
        first, second = self.arms
        sets = secrets.SystemRandom().sample(range(self.longest), calls)
        blocks: dict[str, list[float]] = {}
        for one, other in ((first, second), (second, first)):
            pair = self._pair((one, other), sets, secrets.randbelow(calls))
            for role, block in pair.items():
                self._keep(role, block, result)
                blocks.setdefault(role, []).append(block.net_ms)
        mean = {role: sum(times) / 2 for role, times in blocks.items()}
        result.ratios.append(paired_ratio(mean[first.role], mean[second.role], self.noop.at(calls)))

    def _pair(
        self, order: Sequence[RunnerLink], sets: Sequence[int], picked: int
    ) -> dict[str, BlockResult]:
        """One block of each arm on equal contents, in this order, and looked at; by role."""
        contents, marks = self.fill(sets)[picked], choose_marks()
        pair = {link.role: self._block(link, sets, picked, marks) for link in order}
        first, second = self.arms
        self.check(pair[first.role], pair[second.role], sets[picked], contents)
        return pair

    def _block(
        self,
        link: RunnerLink,
        sets: Sequence[int],
        picked: int = 0,
        marks: Sequence[float] = (),
    ) -> BlockResult:
        block = run_block(link, sets, self.call_limit_s, picked, marks=marks)
        link.release()
        link.freeze()
        return block

    def _keep(self, role: str, block: BlockResult, result: Measurement) -> None:
        result.blocks.append(
            Block(role, block.calls, block.total_ms, len(result.blocks), block.copy_ms)
        )
