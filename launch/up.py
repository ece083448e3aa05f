"""`up`: one site with all its processes on this host, until Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from launch import seed
from launch.children import Child, Household, adopt_orphans
from launch.console import LaunchError, complain, say
from launch.places import REPOSITORY, VENV, VENV_PYTHON
from launch.stack import HOST, answers, environment_of, hold, listening, manage, programs

READY_S = 90.0
PORT_PATIENCE_S = 10.0
"""How long the processes of a killed site may hold the port before that is an error."""


@dataclass(frozen=True)
class Ready:
    """What is said when the site answers."""

    url: str
    entry: str
    """Address that signs in once."""
    home: str
    pid: int
    token: str = ""
    """API token, only where it was asked for."""


def run(home: Path, port: int, environ: Mapping[str, str], *, as_json: bool, examples: bool) -> int:
    """Start everything, say where it is, and tend it until a signal comes."""
    report = complain if as_json else say
    # SIGINT too: a shell script's background job would ignore it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        hold(home) as lock,
        listening(port, PORT_PATIENCE_S if lock.after_a_kill else 0.0) as listener,
    ):
        adopt_orphans()
        household = Household(REPOSITORY, home / "logs", report)
        try:
            ready = _start(household, home, listener, environ, with_token=as_json)
            os.pwrite(lock.handle, json.dumps({"url": ready.url, "pid": ready.pid}).encode(), 0)
            say(json.dumps(asdict(ready)) if as_json else _greeting(ready, environ))
            seeding = seed.seed(home, ready.url, environ, report) if examples else iter(())
            while True:
                next(seeding, None)
                household.tend()
                time.sleep(0.2)
        except KeyboardInterrupt:
            report("Stopping …")
        finally:
            left = _stop(household)
    if left:
        raise LaunchError(f"These processes could not be ended: {', '.join(map(str, left))}.")
    report("Stopped.")
    return 0


def _stop(household: Household) -> list[int]:
    """Stop all; a second Ctrl-C stops waiting, a third is not heard."""
    try:
        return household.stop()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return household.stop(limit_s=0)


def _start(
    household: Household,
    home: Path,
    listener: socket.socket,
    environ: Mapping[str, str],
    *,
    with_token: bool,
) -> Ready:
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    wanted = programs(home, listener, environ)
    children = [household.start(program) for program in wanted if not program.uses_database]
    _collect_static(home, environ)
    extra = ("--token", "--token-days", "1") if with_token else ()
    told = manage(home, environ, "bootstrap", "--migrate", *extra)
    entry = json.loads(told.strip().splitlines()[-1])
    children += [household.start(program) for program in wanted if program.uses_database]
    _wait_until_ready(url, children)
    return Ready(url, url + entry["entry"], str(home), os.getpid(), entry.get("token", ""))


def _collect_static(home: Path, environ: Mapping[str, str]) -> None:
    """Collect the pages' files, unless they are the ones that were collected last."""
    if environ.get("WARPSMITH_DEBUG") == "1":
        return
    stamp = home / "static.stamp"
    files = sorted(path for path in (REPOSITORY / "static").rglob("*") if path.is_file())
    facts = [f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in files]
    facts.append(
        (VENV / "warpsmith.json").read_text() if (VENV / "warpsmith.json").exists() else ""
    )
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    manage(home, environ, "collectstatic", "--noinput", "--verbosity", "0")
    stamp.write_text(digest)


def _wait_until_ready(url: str, children: list[Child]) -> None:
    end = time.monotonic() + READY_S
    while not answers(url):
        for child in children:
            if not child.alive:
                complain(child.last_lines())
                raise LaunchError(
                    f"The {child.program.name} ended at its start ({child.ending}); its last lines "
                    f"are above, all of them in {child.log}."
                )
        if time.monotonic() > end:
            logs = " and ".join(str(child.log) for child in children if child.program.uses_database)
            raise LaunchError(f"The site did not answer within {READY_S:.0f} s; see {logs}.")
        time.sleep(0.1)


def _greeting(ready: Ready, environ: Mapping[str, str]) -> str:
    lines = ["", f"Warpsmith runs at {ready.url}", f"  sign in once  {ready.entry}"]
    lines += [f"  {line}" for line in _doctor(Path(ready.home), environ)]
    lines += [f"  logs          {ready.home}/logs", "  stop          Ctrl-C", ""]
    return "\n".join(lines)


def _doctor(home: Path, environ: Mapping[str, str]) -> list[str]:
    """What the judge finds on this host: sandbox, torch, device; and what is missing."""
    try:
        result = subprocess.run(
            [str(VENV_PYTHON), "-m", "workers", "doctor"],
            cwd=REPOSITORY,
            env=environment_of(home, environ),
            capture_output=True,
            text=True,
            timeout=30,
        )
    except subprocess.TimeoutExpired:
        return ["the judge did not say within 30 s what it finds here"]
    facts = [line.partition(" ") for line in result.stdout.splitlines()]
    told = [f"{name:<13} {value.strip()}" for name, _, value in facts if name != "artifacts"]
    return told + result.stderr.strip().splitlines()[-2:]
