"""Eager timed alone, before any candidate code is loaded, as a yardstick for eager beside the candidate.

A candidate that slows eager down looks faster than it is. It stands while eager is timed, so that only what
it has left behind could do that: other processes, threads elsewhere, memory that it keeps from others.
Eager's pace also changes with the machine, which is no fault of the candidate: a second solo timing,
with the candidate standing by, tells these apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workers.device.judge import processes
from workers.device.judge.bench import Bench
from workers.device.judge.clock import (
    SETTLE_S,
    BlockResult,
    choose_lengths,
    longest_block,
    run_block,
)
from workers.device.judge.quiet import Canary
from workers.evaluation.score import Line, Spread, spread_of

ROUNDS = 2
LEAST_SHARE = 1.0
"""Only eager at half its speed is held against a candidate: what a process that spins on its core makes of it.
Measured for honest kernels on a shared machine: up to 0.2 where calls take a millisecond or more; caches,
memory and the length of blocks make more of it where they are shorter, so that nothing is concluded there."""
LEAST_CALL_MS = 1.0


def slower(beside: Spread, alone: Spread) -> float:
    """By which share eager is slower beside the candidate than alone; 0 where that proves nothing."""
    if alone.middle < LEAST_CALL_MS:
        return 0.0
    share = beside.middle / alone.middle - 1
    return share if share > max(LEAST_SHARE, 4 * math.hypot(beside.error, alone.error)) else 0.0


@dataclass
class Solo:
    """Times eager alone as it is timed beside a candidate: blocks of the same lengths, each call on inputs of
    its own, caches swept before each block, at the machine's pace."""

    bench: Bench
    noop: Line
    canary: Canary

    def first(self) -> Spread:
        """Before any candidate is loaded; makes its own input sets."""
        link = self.bench.reference
        self.bench.allocate([link], 1)
        with processes.preferred([link.pid]):
            first, second = self._block([0]), self._block([0])
        size = sum(place.reach for place in second.places[0])
        call_ms = min(first.net_ms, second.net_ms)
        longest = longest_block(call_ms, self.bench.input_bytes, size)
        self.bench.allocate([link], self.bench.affordable(longest))
        return self.again()

    def again(self) -> Spread:
        """With the input sets that there are; all other runners stand meanwhile."""
        link = self.bench.reference
        longest = len(self.bench.addresses[link.role])
        with processes.preferred([link.pid]):
            self._block(range(longest))  # touches all memory once
            return spread_of(
                [self._per_call(calls) for _ in range(ROUNDS) for calls in choose_lengths(longest)]
            )

    def _per_call(self, calls: int) -> float:
        net_ms = self._block(range(calls)).net_ms
        return max(net_ms - self.noop.at(calls), 1e-6) / calls

    def _block(self, sets: Sequence[int]) -> BlockResult:
        link = self.bench.reference
        self.bench.fill(sets)
        link.freeze()
        self.canary.settle(SETTLE_S / 5)
        self.canary.sweep()
        block = run_block(link, sets, self.bench.call_limit_s)
        link.release()
        link.freeze()
        return block
