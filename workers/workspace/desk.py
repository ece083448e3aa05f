"""A workspace that can be worked in by hand: a sandbox with the folder, the toolchain and the judge's counter in it.

    /workspace     a folder in memory; model.py, problem.toml, SKILL.md and utils/ are mounted read-only over it
    /judge         the counter's socket and token, and `python3`, which can import torch
    /tmp           for everything else

What holds: what `workers.sandbox.spawn` says (no network, no privileges, memory and processes bounded, and
nothing outlives the desk); no file of this machine can be changed, and its disk cannot be filled, since all that is writable is
memory of fixed size. The author's files are read from outside through a descriptor that the sandbox handed
out, so they are safe even when everything inside was killed.

What does not hold: the token keeps sessions apart, not programs inside one sandbox. Without a memory control group
the memory of many processes adds up.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from workers.sandbox import Limits, Profile, SandboxedProcess, SandboxError, choose, spawn
from workers.sandbox.interpreters import python_profile_paths
from workers.sandbox.profiles import is_root, uid_of
from workers.workspace.layout import PROBLEM_FILES

TEMPLATE = Path(__file__).with_name("template")
_DRIVER = Path(__file__).with_name("shell_driver.py")
_IDENTITY = "agent"
_PREFIX = "shell-"
_MIB = 1 << 20
_UP_S = 30.0
_CLEAR_S = 3.0
_SWITCHED_OFF = (
    "The sandbox is switched off here, and no shell is opened without one; unset WARPSMITH_UNSANDBOXED "
    "and WARPSMITH_SANDBOX"
)


class DeskError(RuntimeError):
    """There can be no shell here; one sentence that says why and what to do."""


@dataclass(frozen=True)
class DeskSettings:
    """Where and how strictly shells run."""

    python: Path
    """Interpreter with torch; `python3` inside."""
    sandbox: str
    """As `WorkerConfig.sandbox`."""
    scratch: Path
    """Folder for what is mounted into sandboxes."""
    memory_bytes: int = 8 << 30
    processes: int = 160
    """Processes and threads together."""
    workspace_bytes: int = 128 * _MIB
    tmp_bytes: int = 512 * _MIB


@dataclass(frozen=True)
class Person:
    """Somebody sits in front of the shell instead of a program that sends commands."""

    terminal: bool
    """Whether the streams are a terminal."""
    command: str = ""
    """Run this alone; empty for a shell."""
    term: str = "dumb"
    """Kind of the terminal, as the variable TERM names it."""


Stream = int | IO[bytes] | None


class Desk:
    """One sandboxed shell. Blocking: asynchronous callers open and close it in a thread."""

    def __init__(
        self,
        settings: DeskSettings,
        problem: Mapping[str, bytes],
        person: Person | None = None,
        streams: tuple[Stream, Stream, Stream] = (None, subprocess.PIPE, subprocess.STDOUT),
    ) -> None:
        """Start it and wait until its doors are open; raises `DeskError`."""
        choice = choose(settings.sandbox)
        if choice.problem or choice.kind == "none":
            why = choice.problem or _SWITCHED_OFF
            raise DeskError(why)
        self.token = secrets.token_urlsafe(24)
        self.owner = uid_of(_IDENTITY) if is_root() else None
        self._scratch = _private_folder(settings.scratch)
        self.control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.folder = -1
        self.listener: socket.socket | None = None
        process: SandboxedProcess | None = None
        try:
            with inside:
                profile = self._profile(settings, problem)
                words = [str(settings.python), "-I", "-S", "/judge/driver.py", str(inside.fileno())]
                stdin, stdout, stderr = streams
                process = spawn(
                    profile,
                    words,
                    kind=choice.kind,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(inside.fileno(),),
                )
            self.process = process
            self._open_doors(settings, person)
        except BaseException as error:
            if process is not None:
                process.kill()
            self._clean_up()
            if isinstance(error, (OSError, SandboxError)):
                raise DeskError(f"The shell could not be started: {error}") from error
            raise

    @property
    def output(self) -> int:
        """Descriptor from which all that is printed inside can be read."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def pids(self) -> set[int]:
        """Everything that runs at this desk, as seen from outside."""
        return set(self.process.pids())

    def stand_still(self) -> None:
        """Stop all that runs at the desk, so that it does not disturb what is being timed."""
        stopped: set[int] = set()
        # Somebody may fork while the others are being stopped; a few rounds find the children.
        for _ in range(4):
            new = self.pids() - stopped - {self._first, self._driver}
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            stopped |= new
            if not new:
                return

    def go_on(self) -> None:
        """Wake up what `stand_still` stopped."""
        for pid in self.pids():
            _signal(pid, signal.SIGCONT)

    def end_command(self, before: set[int]) -> bool:
        """Kill bash and all that it started but the jobs of earlier commands (`before`, from `pids`).

        False where the desk could not be cleared and had to be closed.
        """
        deadline = time.monotonic() + _CLEAR_S
        while time.monotonic() < deadline:
            left = self._started_since(before)
            if not left:
                return True
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.005)
        self.process.kill()
        return False

    def _started_since(self, before: set[int]) -> list[int]:
        """What `end_command` is to kill: not the sandbox's first process, the driver, earlier jobs and their children."""
        parents = {pid: _parent(pid) for pid in self.process.pids()}
        bash = {pid for pid, parent in parents.items() if parent == self._driver}
        jobs = before - bash - {self._first, self._driver}
        return [
            pid
            for pid in parents
            if pid not in (self._first, self._driver) and not _among(pid, jobs, parents)
        ]

    def close(self) -> None:
        """Kill everything at the desk and give back what it held."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._clean_up()

    def _open_doors(self, settings: DeskSettings, person: Person | None) -> None:
        setup = {
            "token": self.token,
            "python": str(settings.python),
            "person": person is not None,
            "terminal": person is not None and person.terminal,
            "command": person.command if person else "",
            "term": person.term if person else "",
        }
        self.control.settimeout(_UP_S)
        try:
            self.control.send(json.dumps(setup).encode())
            said, handles, _, _ = socket.recv_fds(self.control, 64, 2, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError as error:
            raise DeskError("The shell did not come up; is this machine very busy?") from error
        if said != b"ready" or len(handles) != 2:
            raise DeskError(f"The shell could not be started{self._last_words()}")
        self.listener = socket.socket(fileno=handles[0])
        self.folder = handles[1]
        self._driver = self.process.inner_pid()
        self._first = _parent(self._driver)
        self.control.setblocking(False)

    def _last_words(self) -> str:
        ended = self.process.kill()
        stream = self.process.stdout
        said = stream.read(4000).decode(errors="replace").strip().splitlines() if stream else []
        why = ended.problem or (said[-1] if said else "")
        return f": {why}" if why else ""

    def _profile(self, settings: DeskSettings, problem: Mapping[str, bytes]) -> Profile:
        mounted = {"/judge/driver.py": _DRIVER}
        for name in PROBLEM_FILES:
            path = self._scratch / name
            path.write_bytes(problem.get(name, b""))
            path.chmod(0o644)
            mounted[f"/workspace/{name}"] = path
        for path in sorted(TEMPLATE.iterdir()):
            mounted[f"/workspace/{path.name}"] = path
        return Profile(
            name="shell",
            identity=_IDENTITY,
            readable=python_profile_paths(settings.python),
            mounted=mounted,
            tmpfs={
                "/workspace": settings.workspace_bytes,
                "/tmp": settings.tmp_bytes,  # noqa: S108 - the sandbox's own
                "/judge": _MIB,
                "/dev/shm": 64 * _MIB,  # noqa: S108
            },
            environment={
                "PATH": "/judge/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            limits=Limits(
                memory_bytes=settings.memory_bytes,
                processes=settings.processes,
                file_bytes=settings.tmp_bytes,
                open_files=1024,
            ),
            workdir="/workspace",
        )

    def _clean_up(self) -> None:
        self.control.close()
        if self.listener is not None:
            self.listener.close()
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1
        shutil.rmtree(self._scratch, ignore_errors=True)


def _private_folder(scratch: Path) -> Path:
    """A new folder for one desk; folders of processes that were killed are swept on the way."""
    scratch.mkdir(parents=True, exist_ok=True)
    for path in scratch.glob(f"{_PREFIX}*"):
        maker = path.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=scratch))
    folder.chmod(0o755)
    return folder


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _parent(pid: int) -> int:
    """Number of a process's parent; 0 where it is gone."""
    try:
        # The name in brackets may hold anything, brackets and spaces included.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _among(pid: int, jobs: set[int], parents: Mapping[int, int]) -> bool:
    """Whether a process is one of these or comes from one of them."""
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        if pid in jobs:
            return True
        seen.add(pid)
        pid = parents[pid]
    return False
