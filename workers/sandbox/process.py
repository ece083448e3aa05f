"""A process in a sandbox, seen from outside: waiting, its real process number, and a thorough kill."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

from workers.sandbox.cgroups import Cgroup
from workers.sandbox.profiles import SandboxError

_POLL_S = 0.002


@dataclass(frozen=True)
class Ended:
    """How a sandboxed process ended. What an exit code says is the program's own claim."""

    code: int | None = None
    """Exit code; None where a signal ended it."""
    signal: int | None = None
    out_of_memory: bool = False
    """The kernel killed something in the sandbox for memory. Only a memory cgroup can tell."""
    killed: bool = False
    """We did it."""
    problem: str = ""
    """Why the sandbox could not be set up; then the program never ran."""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.problem


class OuterProcess(Protocol):
    """What is asked of the outermost process; `subprocess.Popen` has all of it."""

    pid: int
    returncode: int

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class SandboxedProcess:
    """What `spawn` gives back. Close it by `kill` or use it as a context manager."""

    def __init__(
        self,
        outer: OuterProcess,
        status: int,
        cgroup: Cgroup | None,
        kind: str,
        watch: int | None = None,
    ) -> None:
        """`watch` is a process descriptor of `outer`, needed where it is not our own child."""
        self._outer = outer
        self._status = status
        self._cgroup = cgroup
        self._kind = kind
        self._text = b""
        self._news: dict[str, int | str] = {}
        self._killed = False
        self._peak: int | None = None
        self._watch: int | None = os.pidfd_open(outer.pid) if watch is None else watch
        os.set_blocking(status, False)
        self.ended: Ended | None = None

    @property
    def pid(self) -> int:
        """The outermost process. For the program itself see `inner_pid`."""
        return self._outer.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._outer.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._outer.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._outer.stderr

    def inner_pid(self, timeout_s: float = 5.0) -> int:
        """Number of the program's own process as seen from here: to freeze it, to read its memory.

        Raises `SandboxError` if it has not come up in time or has ended.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.poll() is None:
            first = self._first_pid()
            if first is not None:
                command = first if self._kind == "none" else _second_of(first)
                if command is not None:
                    return command
            time.sleep(_POLL_S)
        raise SandboxError(self._news_of_failure() or "the sandboxed process did not come up")

    def pids(self) -> list[int]:
        """All processes of the sandbox, as seen from here, the first one of its own included."""
        first = self._first_pid()
        if first is None or self.poll() is not None:
            return []
        if self._kind == "none":
            return _descendants(self._outer.pid)
        return [first, *_descendants(first)]

    def peak_bytes(self) -> int | None:
        """The most memory held so far by all processes together; None without a memory cgroup."""
        if self.ended is None and self._cgroup is not None:
            self._peak = self._cgroup.peak_bytes()
        return self._peak

    def poll(self) -> Ended | None:
        """How it ended, or None while it runs."""
        if self.ended is None and self._outer.poll() is not None:
            self._finish()
        return self.ended

    def wait(self, timeout_s: float) -> Ended:
        """Wait for the end; raises `TimeoutError`, and kills nothing then."""
        if self.ended is None and self._watch is not None:
            watcher = select.poll()
            watcher.register(self._watch, select.POLLIN)
            watcher.poll(max(0, round(timeout_s * 1000)))
        ended = self.poll()
        if ended is None:
            raise TimeoutError(f"the sandboxed process still ran after {timeout_s:g} s")
        return ended

    def kill(self) -> Ended:
        """Kill everything in the sandbox, wait until nothing is left, and say how it ended."""
        if self.poll() is None:
            self._killed = True
            if self._kind == "none":
                self._kill_tree()
            else:
                self._kill_first()
            self._outer.wait()
            self._finish()
        if self.ended is None:
            raise SandboxError("a killed sandbox did not end")
        return self.ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _kill_first(self) -> None:
        """Process 1 takes its whole namespace along, and is gone only when that is empty."""
        deadline = time.monotonic() + 0.5
        while self._first_pid() is None and time.monotonic() < deadline:
            if self._outer.poll() is not None:
                return
            time.sleep(_POLL_S)
        first = self._first_pid()
        if first is not None:
            _signal(first, signal.SIGKILL)
        try:
            self._outer.wait(1.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._outer.pid, signal.SIGKILL)

    def _kill_tree(self) -> None:
        """Orphans come home to the keeper, so its descendants are all there are; then the keeper itself."""
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline and self._outer.poll() is None:
            found = _descendants(self._outer.pid)
            if not found and self._first_pid() is not None:
                break
            for pid in found:
                _signal(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        self._outer.kill()

    def _finish(self) -> None:
        self._read_news()
        out_of_memory = self._cgroup is not None and self._cgroup.ran_out_of_memory()
        if self._cgroup is not None:
            self._peak = self._cgroup.peak_bytes()
            self._cgroup.remove()
        code, number = self._how()
        self.ended = Ended(code, number, out_of_memory, self._killed, self._news_of_failure())
        os.close(self._status)
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    def _how(self) -> tuple[int | None, int | None]:
        if isinstance(number := self._news.get("exit-signal"), int):
            return None, number
        reported = self._news.get("exit-code")
        code = reported if isinstance(reported, int) else self._outer.returncode
        # Bubblewrap tells a signal as 128 + number, as shells do.
        if self._kind == "bubblewrap" and 128 < code <= 192:
            return None, code - 128
        return (code, None) if code >= 0 else (None, -code)

    def _news_of_failure(self) -> str:
        if "error" in self._news:
            return f"the sandbox could not start the program: {self._news['error']}"
        told = {"exit-code", "exit-signal"} & set(self._news)
        if self._outer.returncode is None or told or self._killed or self._outer.returncode < 0:
            return ""
        return "the sandbox could not be set up"

    def _first_pid(self) -> int | None:
        self._read_news()
        first = self._news.get("child-pid")
        return first if isinstance(first, int) else None

    def _read_news(self) -> None:
        if self.ended is not None:
            return
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._status, 4096):
                self._text += part
        *lines, self._text = self._text.split(b"\n")
        for line in filter(None, lines):
            with contextlib.suppress(ValueError):
                self._news.update(json.loads(line))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _children(pid: int) -> Iterator[int]:
    for task in _listed(Path(f"/proc/{pid}/task")):
        with contextlib.suppress(OSError):
            yield from map(int, (task / "children").read_text().split())


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            found.append(child)
            waiting.append(child)
    return found


def _second_of(first: int) -> int | None:
    """The process that is number 2 in the namespace of which `first` is number 1, once it runs the program."""
    for child in _children(first):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{child}/status").read_text()
            line = next((x for x in status.splitlines() if x.startswith("NSpid:")), "")
            if line.split()[-1:] == ["2"]:
                return child
    return None
