"""Which compiler and which torch headers this machine has. Asked once per process, never from user code."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox.bubblewrap import SYSTEM_PATH

_ANSWER_S = 30.0
_NAMES = ("g++", "c++", "clang++")
_QUESTION = """
import importlib.util, json, sysconfig
spec = importlib.util.find_spec("torch")
print(json.dumps({"torch": spec.origin if spec else "", "include": sysconfig.get_path("include")}))
"""


class ToolchainMissing(RuntimeError):
    """Something that a build needs is not installed; one sentence that says what to install."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler of the system."""

    path: Path
    version: str
    """The first line of `--version`."""
    native: str
    """Digest of what `-march=native` means here, so that cached objects never meet another processor."""

    @property
    def name(self) -> str:
        return "clang++" if "clang" in self.version else "g++"

    @property
    def is_clang(self) -> bool:
        return self.name == "clang++"


@dataclass(frozen=True)
class TorchHeaders:
    """The torch that judge and runners will load."""

    include: Path
    libraries: Path
    version: str
    python_include: Path


@functools.cache
def find_compiler() -> Compiler:
    """The system's compiler; raises `ToolchainMissing`."""
    for name in _NAMES:
        found = shutil.which(name, path=SYSTEM_PATH)
        if found is None:
            continue
        version = _ask([found, "--version"]).splitlines()[0]
        native = _ask([found, "-march=native", "-###", "-E", "-x", "c++", "/dev/null"])
        return Compiler(Path(found), version, hashlib.sha256(native.encode()).hexdigest())
    raise ToolchainMissing("No C++ compiler was found; install one with: sudo apt-get install g++")


@functools.cache
def find_torch(python: Path) -> TorchHeaders:
    """The torch of an interpreter, found without importing it; raises `ToolchainMissing`."""
    try:
        answer = json.loads(_ask([str(python), "-P", "-c", _QUESTION]).splitlines()[0])
    except (ToolchainMissing, ValueError, IndexError) as error:
        raise ToolchainMissing(
            f"The interpreter {python} cannot be asked for torch: {error}"
        ) from error
    if not answer["torch"]:
        raise ToolchainMissing(
            f"torch was not found; install it with: {python} -m pip install torch"
        )
    root = Path(answer["torch"]).parent
    include = root / "include"
    if not (include / "torch/csrc/stable/library.h").is_file():
        raise ToolchainMissing(
            f"The torch in {root} has no stable headers; install torch 2.10 or newer"
        )
    match = re.search(r"__version__ = ['\"]([^'\"]+)", (root / "version.py").read_text())
    version = match[1] if match else "unknown"
    return TorchHeaders(include, root / "lib", version, Path(answer["include"]))


def _ask(argv: list[str]) -> str:
    """Run a trusted program and return what it says on both streams."""
    try:
        answer = subprocess.run(  # noqa: S603 - a compiler or interpreter of the operator
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_S,
            check=True,
            cwd="/",
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainMissing(f"{argv[0]} does not work: {error}") from error
    return answer.stdout.decode(errors="replace")
