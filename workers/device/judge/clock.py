"""The clock: blocks of secret length, one go token per call, arms alternated ABBA.

A block starts with the wake-up of a frozen runner, whose inputs were written while it stood, and ends
when the judge holds a secretly chosen call's outputs, copied from the frozen runner. Work that a
candidate does before "go" or after its answer is therefore either impossible or inside the block.
Pairs that were taken while the machine was not at its pace do not count (`quiet.py`); what disturbs
unseen widens the interval, and the verdict says `unmeasured`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from workers.device.judge import processes
from workers.device.judge.link import OutputPlace, RunnerLink, now_ms
from workers.device.judge.quiet import Canary, Look, queued_ns
from workers.device.judge.spots import Spots, choose_marks, look
from workers.evaluation.score import (
    Arms,
    Line,
    Pair,
    Spread,
    arms_of,
    fit_line,
    half_width,
    interval_of_median,
    spread_of,
)
from workers.protocol.verdict import ArmTiming, Block, Ratio
from workers.protocol.wire import Kind

BLOCK_MS = 25.0
LONGEST_BLOCK = 200
MEMORY_PER_ARM = 768 << 20
LENGTHS = 4
# On a busy machine a measurement may take this many times its budget before it is given up.
PATIENCE = 3.0
LEAST_PAIRS = 8
# How long to wait for the machine's pace before a pair, and which share of its time eager may queue; more
# where the judge itself, which answers every call, has no core of its own.
SETTLE_S = 0.5
QUEUED_SHARE, QUEUED_SHARE_TOGETHER = 0.02, 0.25


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


def calibrate(link: RunnerLink, canary: Canary) -> Line:
    """What a block of calls costs by itself, from the runner's own empty function."""
    points = []
    link.freeze()
    with processes.preferred([link.pid]):
        for calls in (1, 4, 8, 16, 2, 24) * 3:
            canary.settle(SETTLE_S / 10)
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


@dataclass(frozen=True)
class TimedPair:
    """Two blocks of equal length, one of each arm, and what was seen of the machine around them."""

    pair: Pair
    looks: tuple[Look, Look]
    """The canary before and after."""
    waited: bool
    """Whether eager had to wait for a core."""
    orders: tuple[int, int]
    """Positions of its blocks among all."""


@dataclass
class Measurement:
    """What two alternated arms gave. Pairs that were taken while the machine was not at its pace are kept
    and not counted; which these are is seen better the longer the canary has looked."""

    names: tuple[str, str]
    noop: Line
    canary: Canary
    blocks: list[Block] = field(default_factory=list)
    timed: list[TimedPair] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    arms: Arms | None = None
    ratio: Ratio | None = None

    def calm(self, timed: TimedPair) -> bool:
        return not timed.waited and all(self.canary.calm(look) for look in timed.looks)

    def conclude(self) -> None:
        """Arms, ratio and interval from the pairs that count, if they are enough to conclude from."""
        self.pairs = [timed.pair for timed in self.timed if self.calm(timed)]
        if len(self.pairs) >= LEAST_PAIRS and len({pair.calls for pair in self.pairs}) > 1:
            self.arms = arms_of(self.pairs, self.noop)
            self.ratio = interval_of_median(self.arms.ratios)

    @property
    def width(self) -> float:
        """Half width of the interval, relative; infinite while there is none."""
        return math.inf if self.ratio is None else half_width(self.ratio)

    @property
    def disturbed_share(self) -> float:
        return 1 - len(self.pairs) / max(len(self.timed), 1)

    def all_blocks(self) -> tuple[Block, ...]:
        """All blocks, those marked from which nothing was concluded."""
        marked = {order for t in self.timed if not self.calm(t) for order in t.orders}
        return tuple(dataclasses.replace(b, disturbed=b.order in marked) for b in self.blocks)

    def by_length(self) -> tuple[Spread | None, Spread | None]:
        """Speed-ups of the shorter and of the longer blocks; None for fewer than eight of a kind."""
        assert self.arms is not None
        middle = statistics.median(pair.calls for pair in self.pairs)
        both = list(zip(self.pairs, self.arms.ratios, strict=True))
        few = [ratio for pair, ratio in both if pair.calls <= middle]
        many = [ratio for pair, ratio in both if pair.calls > middle]
        return _spread(few), _spread(many)

    def eager_pace(self) -> Spread:
        """The first arm's pace as it is, cold caches included."""
        return spread_of(
            [max(p.baseline_ms - self.noop.at(p.calls), 1e-6) / p.calls for p in self.pairs]
        )

    def arm(self, name: str) -> ArmTiming:
        """Time per call, intercept and single call of one arm, the no-op taken off."""
        assert self.arms is not None
        arm = self.arms.baseline if name == self.names[0] else self.arms.candidate
        singles = [b.total_ms - b.copy_ms for b in self.blocks if b.arm == name and b.calls == 1]
        # The shortest single call: what a candidate hides in the fixed part is in every one of them,
        # what the machine adds is not.
        single = min(singles, default=arm.line.at(1))
        return ArmTiming(
            per_call_ms=arm.per_call_ms,
            intercept_ms=arm.line.intercept_ms - self.noop.intercept_ms,
            single_ms=max(single - self.noop.at(1), 1e-6),
            blocks=len(self.pairs),
        )


@dataclass
class Alternation:
    """Alternates two frozen runners in blocks until the interval of the ratio is narrow.

    `fill(sets)` writes new contents, the same for both arms, and returns them; `check(a, b, index,
    contents)` looks at the blocks of a pair after the clock has stopped and may raise. `index` is the
    input set of the call whose outputs were copied. Every block is checked, the disturbed ones too.
    """

    arms: tuple[RunnerLink, RunnerLink]
    noop: Line
    canary: Canary
    longest: int
    fill: Callable[[Sequence[int]], list[list[torch.Tensor]]]
    check: Callable[[BlockResult, BlockResult, int, list[torch.Tensor]], None]
    call_limit_s: float
    budget_s: float
    """When to stop although the interval is not narrow yet, unless it is too wide to mean anything."""
    acceptable: float
    """Half width of the interval, relative, below which the result can be published."""
    precise: float
    """Half width at which to stop at once."""

    def run(self) -> Measurement:
        """Measure; the runners go before other work meanwhile."""
        with processes.preferred(link.pid for link in self.arms):
            return self._run()

    def _run(self) -> Measurement:
        first, second = self.arms
        result = Measurement((first.role, second.role), self.noop, self.canary)
        self._warm(result)
        started = time.monotonic()
        rounds = 0
        while True:
            for calls in choose_lengths(self.longest):
                sets = secrets.SystemRandom().sample(range(self.longest), calls)
                self._pair((first, second), sets, result)
                self._pair((second, first), sets, result)
            rounds += 1
            result.conclude()
            if result.width <= self.precise:
                return result
            # Another round costs as much as the past ones did on average.
            expected = (time.monotonic() - started) * (1 + 1 / rounds)
            if expected > self._patience(result.width) * self.budget_s:
                return result

    def _patience(self, width: float) -> float:
        """How many budgets to spend at most on an interval that is this wide."""
        if width <= self.acceptable / 2:
            return 1.0
        return 2.0 if width <= self.acceptable else PATIENCE

    def _warm(self, result: Measurement) -> None:
        """Touch all memory once, then take the single calls."""
        for link in self.arms:
            self.fill(range(self.longest))
            self._block(link, list(range(self.longest)))
        for _ in range(3):
            self._pair(self.arms, [0], result)

    def _pair(self, order: Sequence[RunnerLink], sets: Sequence[int], result: Measurement) -> None:
        """A block of each arm on equal new contents, in this order, between two looks of the canary."""
        first, second = self.arms
        picked = secrets.randbelow(len(sets))
        contents, marks = self.fill(sets)[picked], choose_marks()
        queued = queued_ns(first.pid)
        before = self.canary.settle(SETTLE_S)
        blocks = {link.role: self._block(link, sets, picked, marks) for link in order}
        after = self.canary.look()
        mine, other = blocks[first.role], blocks[second.role]
        self.check(mine, other, sets[picked], contents)
        share = QUEUED_SHARE_TOGETHER if processes.share_a_core(first.pid) else QUEUED_SHARE
        waited = (queued_ns(first.pid) - queued) / 1e6 > share * mine.net_ms
        orders = [self._keep(link.role, blocks[link.role], result) for link in order]
        pair = Pair(len(sets), mine.net_ms, other.net_ms)
        result.timed.append(TimedPair(pair, (before, after), waited, (orders[0], orders[1])))

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

    def _keep(self, role: str, block: BlockResult, result: Measurement) -> int:
        order = len(result.blocks)
        result.blocks.append(Block(role, block.calls, block.total_ms, order, block.copy_ms))
        return order


def _spread(ratios: list[float]) -> Spread | None:
    return spread_of(ratios) if len(ratios) >= LEAST_PAIRS else None
