"""A site started by another command, or by a test, and ended with it, even where that one is killed."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from launch.children import end_with_parent
from launch.client import Client
from launch.console import LaunchError
from launch.places import REPOSITORY, VENV_PYTHON

READY_S = 150.0
STOP_S = 40.0


@dataclass(frozen=True)
class OwnSite:
    """A site that runs until the `with` block of `own_site` ends."""

    url: str
    entry: str
    """Address that signs in once."""
    token: str
    home: Path
    pid: int

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)


@contextlib.contextmanager
def own_site(
    home: Path, environ: Mapping[str, str], *, port: int = 0, examples: bool = False
) -> Iterator[OwnSite]:
    """Run `up` beside this process on a free port; what it says besides goes to our error stream."""
    command = [str(VENV_PYTHON), "-m", "launch.commands", "up", "--json"]
    command += ["--port", str(port), "--home", str(home)]
    if not examples:
        command.append("--no-examples")
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        ready = json.loads(_first_line(process, READY_S))
        yield OwnSite(
            ready["url"], ready["entry"], ready["token"], Path(ready["home"]), ready["pid"]
        )
    finally:
        _end(process)


def _first_line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    assert process.stdout is not None
    end = time.monotonic() + limit_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                raise LaunchError(f"The site was not ready after {limit_s:.0f} s.")
            part = os.read(process.stdout.fileno(), 4096)
            if not part:
                raise LaunchError("The site could not be started; the reason is above.")
            line += part
    return line


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL where that is not enough; its children end with it."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
