"""`check` and `test`: the same commands on a developer's machine and in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from launch.console import LaunchError, complain, say
from launch.places import REPOSITORY, VENV, VENV_PYTHON

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Check:
    """One tool. It passes when it exits with 0."""

    name: str
    command: tuple[str, ...]


def check(environ: Mapping[str, str]) -> int:
    """Run every check, also after one has failed; 1 if any failed."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-check-") as home:
        # The checks must neither read nor touch the database of a site that runs here.
        inner = {**environ, "WARPSMITH_HOME": home}
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(lambda item: _run(item, inner), _checks()))
    failed = [name for name, good in results if not good]
    if failed:
        complain(f"Failed: {', '.join(failed)}.")
    return 1 if failed else 0


def test(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run pytest; a missing browser leaves its tests out here, and is an error in CI."""
    command = [str(VENV_PYTHON), "-m", "pytest", *arguments]
    if not any(shutil.which(name, path=environ.get("PATH")) for name in CHROMIUM_NAMES):
        if environ.get("CI") == "true":
            raise LaunchError("The browser tests need Chromium: apt-get install chromium")
        say("The browser tests are left out; they need Chromium: apt-get install chromium")
        command += ["-m", "not browser"]
    with tempfile.TemporaryDirectory(prefix="warpsmith-test-") as home:
        inner = {**environ, "WARPSMITH_HOME": home}
        return subprocess.run(command, cwd=REPOSITORY, env=inner).returncode


def _checks() -> list[Check]:
    tools = VENV / "bin"
    python = str(VENV_PYTHON)
    manage = (python, "manage.py")
    schema = ("spectacular", "--fail-on-warn", "--validate", "--file", os.devnull)
    return [
        Check("types (mypy)", (str(tools / "mypy"),)),
        Check("lint (ruff)", (str(tools / "ruff"), "check", ".")),
        Check("format (ruff)", (str(tools / "ruff"), "format", "--check", ".")),
        Check("layers (import-linter)", (str(tools / "lint-imports"),)),
        Check("settings (django)", (*manage, "check", "--fail-level", "WARNING")),
        Check("migrations", (*manage, "makemigrations", "--check", "--dry-run")),
        Check("API schema", (*manage, *schema)),
        Check("house tests", (python, "-m", "pytest", "-q", "-m", "not slow", "tests/house")),
    ]


def _run(item: Check, environ: Mapping[str, str]) -> tuple[str, bool]:
    started = time.monotonic()
    result = subprocess.run(
        item.command,
        cwd=REPOSITORY,
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    good = result.returncode == 0
    mark = "ok    " if good else "FAILED"
    text = f"{mark} {item.name} ({time.monotonic() - started:.1f} s)"
    if not good:
        text = f"{text}\n{_indented(result.stdout)}"
    say(text)
    return item.name, good


def _indented(text: str) -> str:
    return "\n".join(f"       {line}" for line in text.strip().splitlines())
