"""Child processes: started in groups of their own, kept alive, and ended without a trace.

Three nets, one behind the other: SIGTERM then SIGKILL to each child's process group; `PR_SET_PDEATHSIG`,
by which the kernel kills the children when this process is killed; and `PR_SET_CHILD_SUBREAPER`, by which
whatever a child leaves behind becomes a child of this process, is found in /proc and killed. Not covered:
a process that is handed to another service manager on purpose.

A child that ends is started again after a pause that grows. One that ends again and again right after its
start cannot be helped by that, and `tend` raises instead of trying for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launch.console import LaunchError, complain

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
AT_ONCE_S = 15.0
"""A child that ends sooner than this after its start has most likely not begun its work; one that ran longer
has, and its next pause is the first one again."""
GIVE_UP_AFTER = 6
"""So many ends at once in a row, about a minute with the pauses between them, and we give up."""
STOP_S = 12.0
"""Time to end by itself after SIGTERM; ten seconds are promised."""
REAP_EVERY_S = 5.0
LOG_BYTES = 8 << 20


def adopt_orphans() -> None:
    """Let processes that lose their parent come to this one, where `kill_descendants` finds them."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """For `preexec_fn`: SIGTERM to the new process when the thread that started it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _die_with_parent() -> None:
    """For `preexec_fn`: SIGKILL likewise, so that nothing of a killed site lingers in the next one's way."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@dataclass(frozen=True)
class Program:
    """A process that should run as long as the site does."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    serves_others: bool = False
    """Started first and stopped last, since others talk to it until their end."""
    uses_database: bool = True
    """Started when the database is up to date; others need not wait for that."""


@dataclass
class Child:
    """A program and the process that carries it out just now."""

    program: Program
    log: Path
    pause_s: float
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    ended_at_once: int = 0
    """Times in a row that it ended right after its start."""
    due: float | None = None
    """When it is to be started again, on the monotonic clock."""

    def start(self, cwd: Path) -> None:
        """Start the process; raises `LaunchError` where the program cannot be run."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            try:
                self.process = subprocess.Popen(
                    self.program.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=dict(self.program.environment),
                    pass_fds=self.program.pass_fds,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            except OSError as error:
                raise LaunchError(
                    f"The {self.program.name} cannot be started: {self.program.command[0]}: "
                    f"{error.strerror}. Start again once it can be run; nothing is lost."
                ) from error
        self.started = time.monotonic()
        self.due = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    @property
    def ending(self) -> str:
        """How its process ended, in words."""
        code = 0 if self.process is None else self.process.returncode
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def last_lines(self, count: int = 8) -> str:
        """The end of its log, for the terminal."""
        try:
            text = self.log.read_bytes()[-8192:].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(f"    {line}" for line in text.strip().splitlines()[-count:])


@dataclass
class Household:
    """All children of one site."""

    cwd: Path
    logs: Path
    report: Callable[[str], None]
    first_pause_s: float = FIRST_PAUSE_S
    children: list[Child] = field(default_factory=list)
    reaped: float = 0.0

    def start(self, program: Program) -> Child:
        log = self.logs / f"{program.name.replace(' ', '-')}.log"
        child = Child(program, log, pause_s=self.first_pause_s)
        self.children.append(child)
        child.start(self.cwd)
        return child

    def tend(self) -> None:
        """Notice children that ended, and start them again after a pause that grows.

        Raises `LaunchError` for one that ended right after its start GIVE_UP_AFTER times in a row.
        """
        now = time.monotonic()
        for child in self.children:
            if child.alive:
                continue
            if child.due is None:
                self._mourn(child, now)
            elif now >= child.due:
                self._kill_orphans()
                child.start(self.cwd)
        if now - self.reaped > REAP_EVERY_S:
            self.reaped = now
            self._reap_adopted()

    def _mourn(self, child: Child, now: float) -> None:
        """A child ended: kill what it left behind, say so, and set the time of its next start."""
        child.signal(signal.SIGKILL)
        self._kill_orphans()
        if now - child.started < AT_ONCE_S:
            child.ended_at_once += 1
        else:
            child.ended_at_once, child.pause_s = 0, self.first_pause_s
        if child.ended_at_once >= GIVE_UP_AFTER:
            complain(child.last_lines())
            raise LaunchError(
                f"The {child.program.name} ended {child.ended_at_once} times in a row right after its "
                f"start ({child.ending}); its last lines are above, all of them in {child.log}. "
                "Put right what they name and start again; nothing is lost."
            )
        child.due = now + child.pause_s
        self.report(
            f"The {child.program.name} ended ({child.ending}) and starts again in "
            f"{child.pause_s:.0f} s; its log is {child.log}"
        )
        child.pause_s = min(2 * child.pause_s, LONGEST_PAUSE_S)

    def stop(self, limit_s: float = STOP_S) -> list[int]:
        """End every child and everything that came from it; returns ids that could not be ended."""
        try:
            for last in (False, True):
                self._stop_some(
                    [c for c in self.children if c.program.serves_others is last], limit_s
                )
        finally:
            for child in self.children:
                child.signal(signal.SIGKILL)
        return kill_descendants()

    def _stop_some(self, children: list[Child], limit_s: float) -> None:
        for child in children:
            child.signal(signal.SIGTERM)
        end = time.monotonic() + limit_s
        while any(child.alive for child in children) and time.monotonic() < end:
            time.sleep(0.05)

    def _kill_orphans(self) -> None:
        """End what a dead child left behind: our children that we did not start, and theirs."""
        own = {child.process.pid for child in self.children if child.process is not None}
        processes = _processes()
        for pid, (parent, state) in processes.items():
            if parent == os.getpid() and state != "Z" and pid not in own:
                for found in {pid, *_below({pid}, processes)}:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(found, signal.SIGKILL)

    def _reap_adopted(self) -> None:
        """Bury orphans that ended here; our own children are left to their `Popen`."""
        own = {child.process.pid for child in self.children if child.process is not None}
        for pid, (parent, state) in _processes().items():
            if parent == os.getpid() and state == "Z" and pid not in own:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and state of every process that can be seen."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = (int(fields[1]), fields[0])
    return found


def descendants() -> list[int]:
    """Ids of all processes that descend from this one, zombies left out."""
    return sorted(_below({os.getpid()}, _processes()))


def _below(roots: set[int], processes: Mapping[int, tuple[int, str]]) -> set[int]:
    """All living processes that descend from some."""
    living = {pid: parent for pid, (parent, state) in processes.items() if state != "Z"}
    found = set(roots)
    while more := {pid for pid, parent in living.items() if parent in found} - found:
        found |= more
    return found - roots


def kill_descendants(limit_s: float = 5.0) -> list[int]:
    """SIGKILL whatever still descends from this process; returns what could not be ended."""
    end = time.monotonic() + limit_s
    while True:
        left = descendants()
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)
