"""A crew: one judge and the runners it needs, started together and used for one evaluation.

They are started before the job is known, import torch while nobody waits, and stand by. A crew is never
used twice: the judge is exec'd fresh, and nothing of one candidate is left for the next.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from workers.evaluation.config import WorkerConfig
from workers.protocol import wire
from workers.sandbox import Ended, Limits, Profile, SandboxedProcess, spawn
from workers.sandbox.interpreters import python_profile_paths

PROJECT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
TAIL_BYTES = 16 << 10

# Who stands in for whom: the sandbox's identity of each role.
IDENTITIES = {"eager": "reference", "candidate": "candidate", "stub": "stub", "compile": "stub"}
CANDIDATE_ROLES = ("eager", "candidate", "stub")
PROBLEM_ROLES = ("eager",)
BASELINE_ROLES = ("eager", "compile")


@dataclass
class Tail:
    """The last bytes that a process wrote; the rest is read and dropped, so nobody blocks."""

    stream: IO[bytes]
    kept: bytes = b""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self.stream.fileno(), 1 << 16):
                self.kept = (self.kept + part)[-TAIL_BYTES:]

    def text(self) -> str:
        """What was kept; call it when the process has ended."""
        self.thread.join(1.0)
        self.stream.close()
        return self.kept.decode(errors="replace").strip()


@dataclass
class Crew:
    """Processes of one evaluation. `close` leaves none."""

    roles: dict[str, int]
    runners: dict[str, SandboxedProcess]
    judge: subprocess.Popen[bytes]
    channel: wire.Channel
    tails: dict[str, Tail]
    closed: dict[str, Ended] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether all still stand by."""
        return self.judge.poll() is None and all(r.poll() is None for r in self.runners.values())

    def close(self) -> dict[str, Ended]:
        """Kill everything that is left; says how each runner ended (before the killing, if it did)."""
        if not self.closed:
            self.channel.close()
            self.judge.kill()
            self.judge.wait()
            for role, runner in self.runners.items():
                self.closed[role] = runner.poll() or runner.kill()
        return self.closed

    def said(self, role: str) -> str:
        """The last output of a process (`judge` or a role), once, after `close`."""
        tail = self.tails.pop(role, None)
        return tail.text() if tail else ""


def start_crew(config: WorkerConfig, kind: str, roles: tuple[str, ...]) -> Crew:
    """Start a judge and runners; returns at once, they warm up by themselves."""
    with contextlib.ExitStack() as ours:
        pairs = {role: socket.socketpair() for role in roles}
        upper, lower = socket.socketpair()
        for pair in pairs.values():
            # From now on the kernel notes the sender of every message, the first one included.
            pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            ours.callback(pair[0].close)
            ours.callback(pair[1].close)
        ours.callback(lower.close)
        tails: dict[str, Tail] = {}
        runners: dict[str, SandboxedProcess] = {}
        try:
            for role in roles:
                runners[role] = _start_runner(config, kind, role, pairs[role][1].fileno())
                tails[role] = Tail(_stream(runners[role].stdout))
            judge = _start_judge(config, lower.fileno(), [pairs[r][0].fileno() for r in roles])
        except BaseException:
            upper.close()
            for runner in runners.values():
                runner.kill()
            raise
        tails["judge"] = Tail(_stream(judge.stderr))
        descriptors = {role: pairs[role][0].fileno() for role in roles}
        return Crew(descriptors, runners, judge, wire.Channel(upper), tails)


def runner_profile(config: WorkerConfig, role: str) -> Profile:
    """What a runner may see: the interpreter with torch, the workers package, folders in memory."""
    compiles = role == "compile"
    environment = {
        "PYTHONPATH": str(PROJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "OMP_DYNAMIC": "FALSE",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",  # noqa: S108  (the sandbox's own)
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    return Profile(
        name=f"runner ({role})",
        identity=IDENTITIES[role],
        readable=(*python_profile_paths(config.python), PROJECT / "workers"),
        tmpfs={"/tmp": 2 * GIB if compiles else GIB // 4, "/dev/shm": 64 << 20},  # noqa: S108
        environment=environment,
        limits=Limits(
            memory_bytes=_memory_limit(),
            processes=256 if compiles else 128,
            file_bytes=GIB,
            open_files=1024 if compiles else 256,
        ),
        workdir="/tmp",  # noqa: S108
    )


def _start_runner(config: WorkerConfig, kind: str, role: str, fd: int) -> SandboxedProcess:
    return spawn(
        runner_profile(config, role),
        [str(config.python), "-P", "-s", "-m", "workers.device.runner", "--fd", str(fd)],
        kind=kind,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(fd,),
    )


def _start_judge(config: WorkerConfig, control: int, runners: list[int]) -> subprocess.Popen[bytes]:
    command = [str(config.python), "-P", "-s", "-m", "workers.device.judge", "--fd", str(control)]
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": str(PROJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
        "LANG": "C.UTF-8",
    }
    return subprocess.Popen(  # noqa: S603  (our own program)
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(control, *runners),
        env=environment,
        cwd="/",
        start_new_session=True,
    )


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _memory_limit() -> int:
    """Half of the machine's memory, at most 16 GiB, at least 4 GiB: address space of one runner."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(4 * GIB, min(total // 2, 16 * GIB))
