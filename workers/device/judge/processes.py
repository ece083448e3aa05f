"""Stopping a runner with all its threads, and seeing which processes it has made.

Covered: every thread of the runner's process is confirmed stopped before its memory is read; whether it
ran although it should have stood is seen from the CPU time that the kernel charged to it; other
processes in its sandbox are found, and a candidate that has any is rejected, because one of them
could wake it up or work while the other arm is timed. Not covered: work queued on a device, which
does not stop with its process (the cuda target copies before the clock stops instead).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_STOPPED = frozenset("Tt")
_GONE = frozenset("ZX")
_CPU_CLOCK = 2
"""Linux's number for "scheduler's account of a whole process" in the clock id of a process."""


class StopFailed(RuntimeError):
    """A runner could not be stopped in time."""


def freeze(pid: int, limit_s: float = 2.0) -> int:
    """Stop a process, wait until each of its threads stands, and return its CPU time in ns so far."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + limit_s
    while not _all_stopped(pid):
        if time.monotonic() > deadline:
            raise StopFailed(f"process {pid} did not stop")
    # A thread is marked as stopped shortly before it leaves its core; then its CPU time stands too.
    spent, before = cpu_ns(pid), -1
    while spent != before and time.monotonic() < deadline:
        spent, before = cpu_ns(pid), spent
    return spent


def thaw(pid: int) -> None:
    """Let a stopped process go on."""
    os.kill(pid, signal.SIGCONT)


def _all_stopped(pid: int) -> bool:
    tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  (inside the clock: no Path objects)
    return all(_state(f"/proc/{pid}/task/{task}/stat") in _STOPPED | _GONE for task in tasks)


def _state(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (inside the clock)
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return chr(text[text.rindex(b")") + 2])


def strangers(pid: int) -> list[int]:
    """Processes of the runner's sandbox other than the runner and its ancestors there."""
    ours = _pid_namespace(os.getpid())
    theirs = _pid_namespace(pid)
    if theirs is None:
        return []
    if theirs == ours:  # no namespace of its own (unsandboxed): look at its descendants
        return _descendants(pid)
    ancestors = _ancestors(pid)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            other = int(entry.name)
            if other != pid and other not in ancestors and _pid_namespace(other) == theirs:
                found.append(other)
    return found


def cpu_ns(pid: int) -> int:
    """CPU time of a process so far to the nanosecond, threads that ended included."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPU_CLOCK)
    except OSError as error:
        raise ProcessLookupError(f"process {pid} has no clock any more") from error


def ends(pid: int, patience_s: float = 1.0) -> bool:
    """Whether a process has ended or does so within a moment. That costs it CPU time, even where it stood."""
    deadline = time.monotonic() + patience_s
    while _state(f"/proc/{pid}/stat") not in _GONE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def kill(pid: int) -> None:
    """End a process for good."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def pin(pid: int, cores: set[int]) -> None:
    """Bind every thread of a process to some cores."""
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task), cores)


@contextlib.contextmanager
def preferred(pids: Iterable[int]) -> Iterator[None]:
    """Let some processes, all arms alike, and the judge itself go before all other work, where we may.

    Root may: they run as real-time work, the judge before the runners, so that it gets a core even where
    it has none of its own. A better niceness alone does nothing against the work of other sessions where
    the kernel groups tasks by session, and a time-sliced block is off by whole slices. Runners with
    several cores stay ordinary: threads that spin for each other, as those of OpenMP do, would keep each
    other from a core for good. Harmless where it is not allowed.
    """
    pids = list(pids)
    try:
        _schedule(os.getpid(), os.SCHED_RR, 2)
        for pid in pids:
            if len(_cores(pid)) == 1:
                _schedule(pid, os.SCHED_RR, 1)
        yield
    finally:
        for pid in [*pids, os.getpid()]:
            _schedule(pid, os.SCHED_OTHER, 0)


def share_a_core(pid: int) -> bool:
    """Whether a process may run where this one may."""
    return bool(_cores(pid) & _cores(os.getpid()))


def _cores(pid: int) -> set[int]:
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return set()


def _schedule(pid: int, policy: int, priority: int) -> None:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            os.sched_setscheduler(int(task), policy, os.sched_param(priority))


def _pid_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(text[text.rindex(")") + 2 :].split()[1])
        found.add(pid)
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            with contextlib.suppress(OSError):
                children = [int(x) for x in (task / "children").read_text().split()]
                found.extend(children)
                waiting.extend(children)
    return found
