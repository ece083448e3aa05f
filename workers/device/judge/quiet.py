"""Whether the machine lets a time be taken now: a canary on the timing cores, and who had to wait.

Covered: a host that slows its virtual processors down for a while, a neighbour on a sibling core or on
the memory bus, other processes on the timing cores. All evidence comes from the judge's own work and from
eager's process; nothing that a candidate does can make a block of its own count or not count.
Not covered: a disturbance that begins and ends within one block of the candidate; the median and the
interval deal with those.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_ARITHMETIC_BYTES = 64 << 10
_STREAM_BYTES = 1 << 20
_SWEEP_BYTES = 4 << 20
_MOST_CORES = 4
_FIRST_LOOKS = 16
_PAUSE_S = 0.005
SLOW_ARITHMETIC, SLOW_STREAM = 1.2, 1.6
"""Above this many times its unloaded time the canary says that the cores are slow. Measured on a shared
virtual machine, whose cores are either at their pace or, for about 0.1 s at a time, at two thirds of it
because of a neighbour: arithmetic is below 1.19 in 9 of 10 looks at full pace and above 1.33 in 9 of 10
others; the stream, within and across caches, spreads to 1.5 by itself."""


@dataclass(frozen=True)
class Look:
    """What the canary's two pieces of work took on the slowest timing core, in seconds."""

    arithmetic_s: float
    stream_s: float


@dataclass
class _Pace:
    """What a piece of work takes when nothing disturbs it: the tenth percentile of all that was seen."""

    seen: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        bisect.insort(self.seen, seconds)

    @property
    def unloaded_s(self) -> float:
        return self.seen[len(self.seen) // 10]


class Canary:
    """A short piece of the judge's own work, done on the timing cores while every runner stands.

    A look takes about 0.4 ms a core: twice the same arithmetic and stream through memory, of which the
    faster one counts, because the first finds the caches as the last block left them.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)[:_MOST_CORES]
        self._numbers = bytes(_ARITHMETIC_BYTES)
        self._source = bytes(_STREAM_BYTES)
        self._target = bytearray(_STREAM_BYTES)
        self._sweep, self._swept = bytes(_SWEEP_BYTES), bytearray(_SWEEP_BYTES)
        self._arithmetic, self._stream = _Pace(), _Pace()
        for _ in range(_FIRST_LOOKS):
            self.look()

    def look(self) -> Look:
        """Do the work once; what it took also tells later what unloaded cores would need."""
        look = self._work()
        self._arithmetic.add(look.arithmetic_s)
        self._stream.add(look.stream_s)
        return look

    def calm(self, look: Look) -> bool:
        """Whether the cores were at their pace then, by all that is known now."""
        return (
            look.arithmetic_s <= SLOW_ARITHMETIC * self._arithmetic.unloaded_s
            and look.stream_s <= SLOW_STREAM * self._stream.unloaded_s
        )

    def settle(self, limit_s: float) -> Look:
        """Wait until the cores are at their pace, or until the limit; the last look."""
        deadline = time.monotonic() + limit_s
        look = self.look()
        while not self.calm(look) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            look = self.look()
        return look

    def sweep(self) -> None:
        """Use the timing cores' own caches for something else, as another arm does."""
        home = os.sched_getaffinity(0)
        try:
            for core in self._cores:
                os.sched_setaffinity(0, {core})
                self._swept[:] = self._sweep
        finally:
            os.sched_setaffinity(0, home)

    def _work(self) -> Look:
        """The judge is where it was before afterwards."""
        home = os.sched_getaffinity(0)
        arithmetic = stream = 0.0
        try:
            for core in self._cores:
                os.sched_setaffinity(0, {core})
                first, second = self._piece(), self._piece()
                arithmetic = max(arithmetic, min(first.arithmetic_s, second.arithmetic_s))
                stream = max(stream, min(first.stream_s, second.stream_s))
        finally:
            os.sched_setaffinity(0, home)
        return Look(arithmetic, stream)

    def _piece(self) -> Look:
        started = time.perf_counter()
        hashlib.blake2b(self._numbers).digest()  # plain integer arithmetic in registers
        between = time.perf_counter()
        self._target[:] = self._source
        return Look(between - started, time.perf_counter() - between)


def queued_ns(pid: int) -> int:
    """How long the main thread of a process has waited for a core so far, in ns; 0 where nobody tells."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123  (between blocks of the clock)
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
