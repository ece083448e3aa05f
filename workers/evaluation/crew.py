"""A crew: one judge and the runners it needs, used for one evaluation.

The judge is exec'd fresh and stands by with torch imported before the job is known. Runners are forks of a
zygote, ready in a fraction of a second; where forks cannot be sandboxed they are programs of their own,
started together with the judge so that they import torch while nobody waits. A crew is never used twice:
nothing of one candidate is left for the next.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from workers.evaluation.config import WorkerConfig
from workers.protocol import wire
from workers.sandbox import Ended, Limits, Profile, SandboxedProcess, choose, spawn
from workers.sandbox.interpreters import python_profile_paths
from workers.sandbox.profiles import environment_of
from workers.sandbox.zygote import Zygote

PROJECT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
TAIL_BYTES = 16 << 10

# Who stands in for whom: the sandbox's identity of each role.
IDENTITIES = {"eager": "reference", "candidate": "candidate", "stub": "stub", "compile": "compiler"}
CANDIDATE_ROLES = ("eager", "candidate", "stub")
PROBLEM_ROLES = ("eager",)
CERTIFIED_ROLES = (*CANDIDATE_ROLES, "compile")
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
    """Per role the number of the judge's descriptor."""
    runners: dict[str, SandboxedProcess]
    judge: subprocess.Popen[bytes]
    channel: wire.Channel
    tails: dict[str, Tail]
    closed: dict[str, Ended] = field(default_factory=dict)

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


class Standby:
    """A judge that waits for its job, with a socket for every runner that it may get."""

    def __init__(self, config: WorkerConfig) -> None:
        self.links: dict[str, socket.socket] = {}
        """The runners' ends; each is handed over or closed."""
        self.roles: dict[str, int] = {}
        self.runners: dict[str, SandboxedProcess] = {}
        self.tails: dict[str, Tail] = {}
        with contextlib.ExitStack() as theirs:
            for role in IDENTITIES:
                mine, self.links[role] = socket.socketpair()
                theirs.callback(mine.close)
                # From now on the kernel notes the sender of every message, the first one included.
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                self.roles[role] = mine.fileno()
            upper, lower = socket.socketpair()
            theirs.callback(lower.close)
            try:
                self.judge = _start_judge(config, lower.fileno(), list(self.roles.values()))
            except BaseException:
                upper.close()
                self._close_links()
                raise
        self.channel = wire.Channel(upper)
        self.tails["judge"] = Tail(_stream(self.judge.stderr))

    @property
    def alive(self) -> bool:
        """Whether all still stand by."""
        return self.judge.poll() is None and all(r.poll() is None for r in self.runners.values())

    def add(self, role: str, start: Callable[[int], SandboxedProcess]) -> None:
        """Start a runner on its socket."""
        with self.links.pop(role) as link:
            self.runners[role] = start(link.fileno())
        self.tails[role] = Tail(_stream(self.runners[role].stdout))

    def crew(self) -> Crew:
        """The crew as it is now; the standby is used up."""
        self._close_links()
        roles = {role: self.roles[role] for role in self.runners}
        return Crew(roles, self.runners, self.judge, self.channel, self.tails)

    def close(self) -> None:
        """End the judge and its runners without a job."""
        self.crew().close()

    def _close_links(self) -> None:
        while self.links:
            self.links.popitem()[1].close()


class CrewMaker:
    """Keeps a judge (and what runners come from) warm and makes crews. One per supervisor, not thread-safe."""

    def __init__(self, config: WorkerConfig, kind: str) -> None:
        """`kind` is the sandbox as `choose` found it for this machine."""
        self.config = config
        self.kind = kind
        self._forked_kind = forked_kind(config.sandbox, kind)
        self._zygote: Zygote | None = None
        self._standby: Standby | None = None

    @property
    def runner_kind(self) -> str:
        """The sandbox around reference, candidate and stub."""
        return self._forked_kind or self.kind

    def warm(self) -> None:
        """Have the next crew stand by."""
        if self._forked_kind and (self._zygote is None or not self._zygote.alive):
            self._close_zygote()
            self._zygote = _start_zygote(self.config)
        if self._standby is not None and not self._standby.alive:
            self._standby.close()
            self._standby = None
        if self._standby is None:
            self._standby = Standby(self.config)
            if not self._forked_kind:
                self._add(self._standby, CANDIDATE_ROLES)

    def take(self, roles: tuple[str, ...]) -> Crew:
        """A crew with a runner for each role, for one evaluation."""
        self.warm()
        assert self._standby is not None
        if self._forked_kind or roles == CANDIDATE_ROLES:
            standby, self._standby = self._standby, None
        else:  # the waiting runners are for candidates
            standby = Standby(self.config)
        self._add(standby, tuple(role for role in roles if role not in standby.runners))
        return standby.crew()

    def close(self) -> None:
        """End what stands by."""
        if self._standby is not None:
            self._standby.close()
            self._standby = None
        self._close_zygote()

    def _add(self, standby: Standby, roles: tuple[str, ...]) -> None:
        try:
            for role in roles:
                standby.add(role, functools.partial(self._start_runner, role))
        except BaseException:
            standby.close()
            raise

    def _start_runner(self, role: str, link: int) -> SandboxedProcess:
        profile = runner_profile(self.config, role)
        # torch.compile starts compilers and threads of its own, which a fork of a warm process cannot.
        if self._zygote is not None and role != "compile":
            return self._zygote.fork(profile, kind=self._forked_kind, link=link)
        return spawn(
            profile,
            [*_module(self.config, "runner"), "--fd", str(link)],
            kind=self.kind,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(link,),
        )

    def _close_zygote(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


def forked_kind(setting: str, kind: str) -> str:
    """The sandbox that forks can enter here; empty where there is none or another one was asked for by name."""
    if kind != "bubblewrap":
        return kind
    return choose("namespaces").kind if setting == "auto" else ""


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


def _module(config: WorkerConfig, name: str) -> list[str]:
    return [str(config.python), "-P", "-s", "-m", f"workers.device.{name}"]


def _start_zygote(config: WorkerConfig) -> Zygote:
    """With the environment of its forks: libraries read theirs when they are loaded."""
    profile = runner_profile(config, "candidate")
    return Zygote(_module(config, "zygote"), environment_of(profile))


def _start_judge(config: WorkerConfig, control: int, runners: list[int]) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": str(PROJECT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
        "LANG": "C.UTF-8",
    }
    return subprocess.Popen(  # noqa: S603  (our own program)
        [*_module(config, "judge"), "--fd", str(control)],
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
