"""The virtual environment `.venv`: made once, checked in a moment afterwards.

The packages come from the lock files, by hash. torch stays outside the lock, because the right build
depends on the host: one that `.venv` can import is kept; else one that the Python we make `.venv` from
can import is borrowed, through a `.pth` file that puts its folder behind our own packages; else pip
installs `WARPSMITH_TORCH`, under whatever index setting the user has. A stamp, written last, records the
lock files' contents, so that an interrupted set-up goes on and a finished one costs no time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from launch.console import LaunchError, Step, say
from launch.places import DEV_LOCK, REPOSITORY, RUN_LOCK, VENV, VENV_PYTHON
from launch.prerequisites import Interpreter, Torch, check_compiler, find_python, probe, probe_torch

TORCH = "torch==2.13.0"
"""What is installed where no torch is found: the version that this release is tested with."""

_STAMP = VENV / "warpsmith.json"
_LONG_DOWNLOAD = re.compile(r"Downloading (\S+) \(([\d.]+ GB|\d{3,}[\d.]* MB)\)")


def prepare(environ: Mapping[str, str], *, dev: bool) -> Path:
    """Bring `.venv` up to date, with the development packages if asked; returns its interpreter."""
    wanted = _wanted(environ, dev)
    if _covers(_read_stamp(), wanted):
        check_compiler(environ)
        return VENV_PYTHON
    with _one_at_a_time():
        if not _covers(_read_stamp(), wanted):
            _set_up(environ, wanted)
    return VENV_PYTHON


def _set_up(environ: Mapping[str, str], wanted: dict[str, str]) -> None:
    python = find_python()
    compiler = check_compiler(environ)
    say(f"Setting up with {python.name} and {compiler}:")
    _make_venv(python)
    for title, lock in (("packages", RUN_LOCK), ("development packages", DEV_LOCK)):
        if lock.name in wanted:
            _pip(f"installing {title}", ["--require-hashes", "-r", str(lock)], environ)
    torch = _provide_torch(python, environ)
    _STAMP.write_text(json.dumps({**wanted, "torch": torch.version, "torch folder": torch.folder}))


def _make_venv(python: Interpreter) -> None:
    present = probe(str(VENV_PYTHON)) if VENV.exists() else None
    if present is not None and present.suits:
        return
    step = Step("making .venv")
    command = [python.executable, "-m", "venv", "--clear", str(VENV)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    if result.returncode:
        step.failed()
        raise LaunchError(
            f"{python.name} could not make a virtual environment: {_last_line(result)}"
        )
    step.done()


def _provide_torch(python: Interpreter, environ: Mapping[str, str]) -> Torch:
    """Find, borrow or install torch."""
    asked = environ.get("WARPSMITH_TORCH", "").strip()
    here = probe_torch(str(VENV_PYTHON))
    if here is not None and not asked:
        say(f"  torch {here.version} is there")
        return here
    lent = None if asked or here else probe_torch(python.executable)
    if lent is not None:
        packages = _site_packages()
        (packages / "warpsmith_torch.pth").write_text(lent.folder + "\n")
        say(f"  torch {lent.version} is borrowed from {lent.folder}")
        return lent
    requirement = asked or TORCH
    say(
        f"  {requirement} comes next, by pip under your own index setting: a few hundred MB for a CPU "
        "build, several GB for a CUDA build. WARPSMITH_TORCH names another."
    )
    _pip(f"installing {requirement}", requirement.split(), environ)
    installed = probe_torch(str(VENV_PYTHON))
    if installed is None:
        raise LaunchError(
            f"pip installed {requirement}, but no torch of version 2.10 or newer can be imported; "
            "set WARPSMITH_TORCH to a build that suits this machine."
        )
    return installed


def _pip(title: str, arguments: list[str], environ: Mapping[str, str]) -> None:
    """Run pip install with little said; on failure its last lines and a `LaunchError`."""
    step = Step(title)
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", *arguments]
    last: deque[str] = deque(maxlen=12)
    collected = 0
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=REPOSITORY,
        env={**environ, "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        last.append(line.rstrip())
        large = _LONG_DOWNLOAD.search(line)
        if large:
            step.note(f"downloading {large[1].rsplit('/', 1)[-1]}, {large[2]}")
        if line.startswith(("Collecting", "Requirement already satisfied")):
            collected += 1
            step.progress(f"{collected} packages found")
        if line.startswith("Installing collected packages"):
            step.progress("unpacking")
    if process.wait():
        step.failed()
        for text in last:
            say(f"    {text}")
        raise LaunchError(
            f"{title} failed; pip's last lines are above. Start the same command again once the cause is gone."
        )
    step.done()


def _wanted(environ: Mapping[str, str], dev: bool) -> dict[str, str]:
    locks = [RUN_LOCK, DEV_LOCK] if dev else [RUN_LOCK]
    wanted = {lock.name: hashlib.sha256(lock.read_bytes()).hexdigest() for lock in locks}
    asked = environ.get("WARPSMITH_TORCH", "").strip()
    return {**wanted, "torch asked": asked} if asked else wanted


def _covers(stamp: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether a finished set-up gave all that is wanted, and is still there."""
    if not VENV_PYTHON.exists() or not Path(stamp.get("torch folder", "missing"), "torch").is_dir():
        return False
    return all(stamp.get(name) == value for name, value in wanted.items())


def _read_stamp() -> dict[str, str]:
    try:
        data = json.loads(_STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _site_packages() -> Path:
    found = sorted(VENV.glob("lib/python3.*/site-packages"))
    if not found:
        raise LaunchError("The folder .venv is damaged: delete it and start again.")
    return found[0]


def _last_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = (result.stdout + result.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {result.returncode}"


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two commands started together in one checkout set it up once, one after the other."""
    handle = os.open(REPOSITORY, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("Another command is setting this checkout up; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def go_on(arguments: list[str]) -> NoReturn:
    """Carry the command out under the interpreter of `.venv`, in this same process."""
    os.execv(str(VENV_PYTHON), [str(VENV_PYTHON), "-m", "launch.commands", *arguments])  # noqa: S606
