"""Eager timed alone, before any candidate code is loaded, as a yardstick for eager beside the candidate.

A candidate that slows eager down looks faster than it is. It stands while eager is timed, so that only what
it has left behind could do that: other processes, threads elsewhere, memory that it keeps from others.
Eager's pace also changes with the machine, which is no fault of the candidate: a second solo timing,
with the candidate standing by, tells these apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workers.device.judge import processes
from workers.device.judge.bench import Bench
from workers.device.judge.clock import SETTLE_S, BlockResult, longest_block, run_block
from workers.device.judge.quiet import Canary
from workers.evaluation.score import Line, Spread, spread_of

BLOCKS = 6
BUDGET_MS = 250.0
"""For all blocks together; at least one call each."""
MOST_CALLS = 16
LEAST_SHARE = 0.05
"""On a cpu, caches that the other arm has used in between cost eager a few per cent."""
REJECT_SHARE = 0.25


def slower(beside: Spread, alone: Spread) -> float:
    """By which share eager is slower beside the candidate than alone; 0 within what noise explains."""
    share = beside.middle / alone.middle - 1
    return share if share > max(LEAST_SHARE, 3 * math.hypot(beside.error, alone.error)) else 0.0


@dataclass
class Solo:
    """Times eager alone: several blocks of equal length, each call on inputs of its own, at the machine's pace."""

    bench: Bench
    noop: Line
    canary: Canary
    calls: int = 0
    """In a block; chosen at the first timing."""

    def first(self) -> Spread:
        """Before any candidate is loaded; makes its own input sets."""
        link = self.bench.reference
        self.bench.allocate([link], 1)
        with processes.preferred([link.pid]):
            self._block(1)
            call_ms = max(self._block(1).net_ms, 1e-3)
        by_time = int(BUDGET_MS / BLOCKS / call_ms)
        self.calls = self.bench.affordable(
            min(max(by_time, 1), MOST_CALLS, longest_block(call_ms, self.bench.input_bytes, 0))
        )
        self.bench.allocate([link], self.calls)
        return self.again()

    def again(self) -> Spread:
        """With the input sets that there are; all other runners stand meanwhile."""
        link = self.bench.reference
        calls = min(self.calls, len(self.bench.addresses[link.role]))
        with processes.preferred([link.pid]):
            self._block(calls)  # memory for the outputs of a whole block
            times = [self._block(calls).net_ms for _ in range(BLOCKS)]
        return spread_of([max(t - self.noop.at(calls), 1e-6) / calls for t in times])

    def _block(self, calls: int) -> BlockResult:
        link = self.bench.reference
        self.bench.fill(range(calls))
        link.freeze()
        self.canary.settle(SETTLE_S / 5)
        block = run_block(link, range(calls), self.bench.call_limit_s)
        link.release()
        link.freeze()
        return block
