"""The supervisor's end of a zygote: sandboxed programs as forks of one warm process.

The zygote (`workers/device/zygote`) is our own program and runs no user code. It forks; the fork enters plain
namespaces by `keeper.py`, exactly as a program started by `spawn` would, and goes on inside as a runner. What
holds inside is what `spawn` promises for `namespaces` (or `none`); bubblewrap starts programs and cannot take in a fork.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from workers.sandbox.cgroups import Cgroup
from workers.sandbox.process import SandboxedProcess
from workers.sandbox.profiles import Profile, SandboxError
from workers.sandbox.spawn import limits_of, plan_of, start

READY_LIMIT_S = 120.0
ANSWER_LIMIT_S = 10.0


class Adopted:
    """A process that is nobody's child here: what `SandboxedProcess` needs to know about its outer process."""

    stdin: IO[bytes] | None = None
    stderr: IO[bytes] | None = None

    def __init__(self, pid: int, watch: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self.returncode = 125
        """How it ended is known from its news alone; without any it never came up."""
        self._watch: int | None = watch

    def poll(self) -> int | None:
        """None while it runs."""
        return None if self._waited(0.0) is None else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `subprocess.Popen.wait`."""
        code = self._waited(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["a fork of the zygote"], timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill this process alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)

    def _waited(self, timeout: float | None) -> int | None:
        if self._watch is not None:
            poller = select.poll()
            poller.register(self._watch, select.POLLIN)
            if not poller.poll(None if timeout is None else round(timeout * 1e3)):
                return None
            os.close(self._watch)
            self._watch = None
        return self.returncode


class Zygote:
    """A warm process of ours. `fork` raises `SandboxError` when it is gone; `alive` tells beforehand."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it; `argv` is the command without `--fd`, `environment` its whole environment."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start(
                [*argv, "--fd", str(theirs.fileno())], environment, (theirs.fileno(),)
            )
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, profile: Profile, *, kind: str, link: int) -> SandboxedProcess:
        """A runner under a profile, its output in `stdout`; `link` is its end of the socket to the judge."""
        limits = profile.limits
        cgroup = Cgroup.create(limits.memory_bytes, limits.processes)
        try:
            plan = plan_of(profile, (profile.name,), kind, cgroup, limits_of(profile, kind, cgroup))
            with contextlib.ExitStack() as theirs:
                news, status = os.pipe()
                output, output_end = os.pipe()
                theirs.callback(os.close, status)
                theirs.callback(os.close, output_end)
                try:
                    pid, watch = self._ask(marshal.dumps(plan), [status, output_end, link])
                except BaseException:
                    os.close(news)
                    os.close(output)
                    raise
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise
        outer = Adopted(pid, watch, os.fdopen(output, "rb", buffering=0))
        return SandboxedProcess(outer, news, cgroup, kind, watch=os.dup(watch))

    def close(self) -> None:
        """End it, and with it every fork that still runs."""
        self._requests.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, plan: bytes, handles: list[int]) -> tuple[int, int]:
        """Process number of the keeper and a descriptor of it."""
        try:
            if not self._ready:
                self._requests.settimeout(READY_LIMIT_S)
                if self._requests.recv(16) != b"ready":
                    raise SandboxError("the warm process of the runners did not start")
                self._ready = True
            self._requests.settimeout(ANSWER_LIMIT_S)
            socket.send_fds(self._requests, [plan], handles)
            answer, passed, _, _ = socket.recv_fds(self._requests, 64, 1)
        except OSError as error:
            raise SandboxError(f"the warm process of the runners failed: {error}") from error
        if not answer or not passed:
            raise SandboxError("the warm process of the runners is gone")
        return int(answer), passed[0]
