"""Whose code a candidate's calls run, seen from outside: a profile by stopping it at random moments.

The list of torch's operators comes from the candidate's own process and may be a lie; so may any other
word of it. But where a stopped thread's program counter stands is told by the kernel, and whether the
built library lies there is seen from the bytes. A call that spends much of its time in torch, in another
library or in code that was made at run time is not computed by its kernels.

Sampled blocks look like timed ones to the candidate and are strewn among them. Not covered: calls so
short that moments of them cannot be hit; a system that does not tell where threads stand; memory-bound
work of torch under the name of a copy, which a candidate may do; the time of the interpreter and of
finding the kernel, which is the candidate's loss.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workers.device.judge.link import RunnerFailure, RunnerLink

SHORTEST_MS = 0.1
"""Calls below are not looked at: most moments would hit the loop around them."""
FEWEST = 24
"""Samples of computing code without which nothing is said."""
PLENTY = 96
"""So many say enough; from then on looks are rare."""
FOREIGN_SHARE, FOREIGN_SHARE_WITH_COPIES = 0.25, 0.9
DISPATCH_MS = 0.02
"""What torch may need to find the kernel and to make its outputs; more of a short call than of a long one."""
LOOKS, LOOKS_FROM_MS = 4, 1.0
"""Moments in one call; one only in calls shorter than this, which is woken up too slowly for more."""
MOVING_CALLS = frozenset(
    f"aten::{name}" for name in ("copy_", "clone", "contiguous", "_to_copy", "fill_", "zero_")
)

_SYSTEM = re.compile(
    r"(?:libc|libm|libmvec|libpthread|libstdc\+\+|libgcc_s|ld-linux[\w-]*)\.so(?:\.\d+)*"
)
_HOST = re.compile(r"\[vdso\]|(?:lib)?python3|(?:libtorch_python|libc10|libtorch|libshm)\.so")
"""The interpreter, and those of torch's libraries that find and allocate but do not compute."""
_READ_ONLY, _WRITABLE = ("/usr/", "/lib"), ("/tmp", "/dev/shm", "/memfd")  # noqa: S108
_BYTES = 16


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    offset: int
    path: str


@dataclass
class Whereabouts:
    """Samples of one candidate by whose code they hit: `kernels`, `system`, `host`, `foreign`."""

    library: bytes
    """The built library, to compare with what is mapped."""
    samples: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    """Foreign samples by file."""
    shortest_ms: float = math.inf
    """The shortest of the calls looked at."""
    _maps: list[_Mapping] = field(default_factory=list)

    @property
    def computing(self) -> int:
        """Samples that hit code which computes, whosever it is."""
        return sum(self.samples[kind] for kind in ("kernels", "system", "foreign"))

    @property
    def foreign_share(self) -> float | None:
        """Share of foreign code in the computing; None where too few samples say anything."""
        computing = self.computing
        return self.samples["foreign"] / computing if computing >= FEWEST else None

    def complaint(self, claimed: Sequence[str]) -> str:
        """A sentence if too much of the time is not the kernels'. `claimed` are the calls it admits to."""
        share = self.foreign_share
        copies = MOVING_CALLS.intersection(claimed)
        limit = FOREIGN_SHARE + DISPATCH_MS / self.shortest_ms
        if copies:
            limit = max(limit, FOREIGN_SHARE_WITH_COPIES)
        if share is None or share <= limit:
            return ""
        where = ", ".join(name for name, _ in self.places.most_common(2))
        return (
            f"forward spends {100 * share:.0f} % of its computing in code that is not the kernels' "
            f"({where}); this problem wants kernels only."
        )

    def block(self, link: RunnerLink, sets: Sequence[int], call_ms: float, limit_s: float) -> None:
        """Run one block on a standing runner and look where it is in one secret call, at random moments.

        The block ends with that call, so that a candidate that notices has nothing left to behave in.
        """
        self.shortest_ms = min(self.shortest_ms, call_ms)
        link.set_timeout(limit_s)
        link.thaw()
        last = secrets.randbelow(len(sets))
        for index in sets[:last]:
            link.go(index)
        link.go(sets[last], meanwhile=functools.partial(self._look, link, call_ms))
        link.freeze()
        link.release()
        link.freeze()

    def _look(self, link: RunnerLink, call_ms: float) -> None:
        looks = LOOKS if call_ms >= LOOKS_FROM_MS else 1
        moments = sorted(secrets.randbelow(1000) * call_ms / 1e6 for _ in range(looks))
        for before, moment in itertools.pairwise([0.0, *moments]):
            _wait(moment - before)
            link.freeze()
            for counter in counters(link.pid):
                self.samples[self._kind(link, counter)] += 1
            link.thaw()

    def _kind(self, link: RunnerLink, counter: int) -> str:
        mapping = self._mapping(link.pid, counter)
        name = Path(mapping.path).name
        if name.startswith("library.so") and self._is_library(link, counter, mapping):
            return "kernels"
        if mapping.path.startswith(_READ_ONLY) and _SYSTEM.fullmatch(name):
            return "system"
        if name.startswith("libgomp") and "site-packages" in mapping.path:
            return "system"
        if _HOST.match(name) and not mapping.path.startswith(_WRITABLE):
            return "host"
        self.places[name or "code made at run time"] += 1
        return "foreign"

    def _is_library(self, link: RunnerLink, counter: int, mapping: _Mapping) -> bool:
        at = counter - mapping.start + mapping.offset
        length = min(_BYTES, mapping.end - counter, len(self.library) - at)
        if length <= 0:
            return False
        try:
            return bytes(link.read(counter, length).tolist()) == self.library[at : at + length]
        except RunnerFailure:
            return False

    def _mapping(self, pid: int, counter: int) -> _Mapping:
        for attempt in range(2):
            for mapping in self._maps:
                if mapping.start <= counter < mapping.end:
                    return mapping
            if not attempt:
                self._maps = _executable(pid)
        return _Mapping(0, 0, 0, "")


def _wait(seconds: float) -> None:
    """Wait to the microsecond: short waits do not sleep, which would take longer than they do."""
    end = time.perf_counter() + seconds
    if seconds > 1e-3:
        time.sleep(seconds - 5e-4)
    while time.perf_counter() < end:
        pass


def counters(pid: int) -> list[int]:
    """Program counters of the threads of a stopped process that were computing, not in a system call."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            words = (task / "syscall").read_text().split()
        except OSError:
            continue
        if len(words) == 3 and words[0] == "-1":
            found.append(int(words[2], 16))
    return found


def _executable(pid: int) -> list[_Mapping]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        span, rights, offset, _, _, *path = line.split(maxsplit=5)
        if "x" in rights:
            start, end = (int(x, 16) for x in span.split("-"))
            found.append(_Mapping(start, end, int(offset, 16), path[0] if path else ""))
    return found
