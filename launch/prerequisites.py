"""What the host must bring: Python 3.11 to 3.13 with venv and headers, and a C++ compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.console import LaunchError
from launch.places import VENV

OLDEST = (3, 11)
NEWEST = (3, 13)
OLDEST_TORCH = (2, 10)

_PROBE = """
import importlib.util, json, os, sys, sysconfig
print(json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "venv": importlib.util.find_spec("venv") is not None
        and importlib.util.find_spec("ensurepip") is not None,
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""

_TORCH_PROBE = """
import json, os, torch
print(json.dumps({
    "version": torch.__version__,
    "folder": os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that was asked about itself."""

    executable: str
    version: tuple[int, int, int]
    venv: bool
    headers: bool

    @property
    def suits(self) -> bool:
        """Whether the version is one that Warpsmith runs on."""
        return OLDEST <= self.version[:2] <= NEWEST

    @property
    def name(self) -> str:
        return "Python " + ".".join(str(part) for part in self.version)


@dataclass(frozen=True)
class Torch:
    """A torch that could be imported."""

    version: str
    folder: str
    """The site-packages folder that holds it."""


def find_python() -> Interpreter:
    """The interpreter to make `.venv` with, or a `LaunchError` that says what is missing."""
    found = [python for python in map(probe, _candidates()) if python is not None]
    fitting = [python for python in found if python.suits]
    if not fitting:
        have = found[0].name if found else "none"
        raise LaunchError(
            f"Warpsmith needs Python 3.11, 3.12 or 3.13 ({have} was found). "
            "Install one, for example: apt-get install python3 python3-venv python3-dev"
        )
    complete = [python for python in fitting if python.venv and python.headers]
    if complete:
        return complete[0]
    first = fitting[0]
    short = ".".join(str(part) for part in first.version[:2])
    if not first.venv:
        raise LaunchError(
            f"{first.name} has no venv module. Install it, for example: "
            f"apt-get install python{short}-venv"
        )
    raise LaunchError(
        f"{first.name} has no headers (Python.h). Install them, for example: "
        f"apt-get install python{short}-dev"
    )


def check_compiler(environ: Mapping[str, str]) -> str:
    """The C++ compiler that builds will use, or a `LaunchError` that says how to get one."""
    named = environ.get("CXX", "")
    for compiler in [named] if named else ["g++", "c++", "clang++"]:
        path = shutil.which(compiler, path=environ.get("PATH"))
        if path:
            return path
    if named:
        raise LaunchError(f"CXX names the C++ compiler {named!r}, which is not on the PATH.")
    raise LaunchError(
        "Warpsmith needs a C++ compiler. Install one, for example: apt-get install g++"
    )


def probe(executable: str) -> Interpreter | None:
    """Ask a Python about itself; None where it does not run (a shim without a version, say)."""
    data = _ask([executable, "-c", _PROBE], 20)
    if data is None:
        return None
    major, minor, patch = data["version"]
    return Interpreter(data["executable"], (major, minor, patch), data["venv"], data["headers"])


def probe_torch(executable: str) -> Torch | None:
    """The torch that a Python can import, if it is recent enough."""
    data = _ask([executable, "-W", "ignore", "-c", _TORCH_PROBE], 120)
    if data is None:
        return None
    parts = data["version"].split("+")[0].split(".")
    if not all(part.isdigit() for part in parts[:2]):
        return None
    version = tuple(int(part) for part in parts[:2])
    return Torch(data["version"], data["folder"]) if version >= OLDEST_TORCH else None


def _candidates() -> list[str]:
    names = [] if sys.executable.startswith(f"{VENV}{os.sep}") else [sys.executable]
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        path = shutil.which(name)
        if path and os.path.realpath(path) not in map(os.path.realpath, names):
            names.append(path)
    return names


def _ask(command: list[str], timeout_s: float) -> dict[str, Any] | None:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, cwd=Path("/"), check=True
        )
        data = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return data if isinstance(data, dict) else None
