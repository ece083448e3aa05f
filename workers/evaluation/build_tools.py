"""Run one compiler or linker in a sandbox of its own: files in, one file out.

The sandbox sees the system's toolchain, what is mounted for this run, and nothing of the project, the
artifact store or the network. Sources lie in a private folder, shown read-only as /work. The result is
written to memory inside and handed out through the standard output into a file in memory whose
size is limited, so no path inside is ever followed from outside. One run per object: what a hostile source
could do to a compiler, it can do to its own object only.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workers.sandbox import Limits, Profile, SandboxError, spawn

_MIB = 1 << 20
_SCRIPT = '"$@" -o /build/out >&2 || exit $?; exec cat /build/out'
_OUT_OF_TIME = re.compile(r"CPU time limit exceeded|Virtual timer expired|XCPU")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|virtual memory exhausted|memory exhausted|cannot allocate memory|bad_alloc"
    r"|Killed signal terminated program|internal compiler error: Killed",
    re.IGNORECASE,
)


class Failure(enum.StrEnum):
    """Why a tool gave no file."""

    NONE = ""
    REFUSED = "refused"
    """The tool said no; its output says why."""
    WALL = "wall"
    CPU = "cpu"
    MEMORY = "memory"
    SIZE = "size"
    SANDBOX = "sandbox"
    """The tool could not be started; nothing is said about the sources."""


@dataclass(frozen=True)
class ToolLimits:
    """Bounds on one run of a tool."""

    wall_s: float = 60.0
    cpu_s: int = 45
    memory_bytes: int = 2048 * _MIB
    output_bytes: int = 64 * _MIB
    log_bytes: int = _MIB


@dataclass(frozen=True)
class ToolRun:
    """What to run and on what."""

    argv: tuple[str, ...]
    """Compiler and options; `-o` is added."""
    files: Mapping[str, bytes]
    """Paths below /work."""
    mounted: Mapping[str, Path] = field(default_factory=dict)
    limits: ToolLimits = field(default_factory=ToolLimits)


@dataclass(frozen=True)
class ToolOutcome:
    """The file or why there is none."""

    output: bytes
    log: str
    failure: Failure
    seconds: float

    @property
    def ok(self) -> bool:
        return self.failure is Failure.NONE


def run_tool(run: ToolRun, kind: str, scratch: Path, wall_s: float | None = None) -> ToolOutcome:
    """Run it; `scratch` is a folder of ours for the private copy of the sources, `wall_s` what time is left."""
    started = time.monotonic()
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="build-", dir=scratch))
    try:
        _fill(folder, run.files)
        outcome = _run(run, kind, folder, min(run.limits.wall_s, wall_s or run.limits.wall_s))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    output, log, failure = outcome
    return ToolOutcome(output, log, failure, time.monotonic() - started)


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    # Readable by the builder's own user; the folder is new, so nobody else has a link in it.
    folder.chmod(0o755)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_bytes(content)
        path.chmod(0o644)


def _run(run: ToolRun, kind: str, folder: Path, wall_s: float) -> tuple[bytes, str, Failure]:
    limits = run.limits
    unprotected = kind == "none"
    profile = Profile(
        name="compiler",
        identity="builder",
        mounted={"/work": folder, **run.mounted},
        tmpfs={"/tmp": 512 * _MIB, "/build": 4 * limits.output_bytes},  # noqa: S108 - inside
        environment={"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"},
        limits=Limits(
            memory_bytes=limits.memory_bytes,
            processes=32,
            cpu_seconds=limits.cpu_s,
            file_bytes=limits.output_bytes,
        ),
        workdir=str(folder) if unprotected else "/work",
    )
    script, argv = _SCRIPT, run.argv
    if unprotected:
        # There is no view of its own then, so the places inside become the real ones.
        places = {
            "/work": str(folder),
            **{inside: str(path) for inside, path in run.mounted.items()},
        }
        argv = tuple(_replaced(word, places) for word in argv)
        (folder / "build").mkdir()
        script = script.replace("/build/out", f"{folder}/build/out")
    output, log = (os.memfd_create(name, os.MFD_CLOEXEC) for name in ("output", "log"))
    try:
        words = ["/bin/sh", "-c", script, "sh", *argv]
        with spawn(profile, words, kind=kind, stdout=output, stderr=log) as process:
            try:
                ended = process.wait(wall_s)
            except TimeoutError:
                ended = process.kill()
        text = _read(log, limits.log_bytes).decode(errors="replace").replace(str(folder) + "/", "")
        if ended.killed:
            return b"", text, Failure.WALL
        if ended.problem:
            return b"", f"{text}{ended.problem}\n", Failure.SANDBOX
        failure = Failure.NONE if ended.ok else _why(text, ended.code, ended.out_of_memory)
        content = _read(output, limits.output_bytes + 1) if failure is Failure.NONE else b""
        if len(content) > limits.output_bytes:
            return b"", text, Failure.SIZE
        return content, text, failure
    except (SandboxError, OSError) as error:
        return b"", f"{error}\n", Failure.SANDBOX
    finally:
        os.close(output)
        os.close(log)


def _why(text: str, code: int | None, out_of_memory: bool) -> Failure:
    if out_of_memory or _OUT_OF_MEMORY.search(text):
        return Failure.MEMORY
    if _OUT_OF_TIME.search(text) or code is None:
        return Failure.CPU
    if "File size limit exceeded" in text or "file too big" in text.lower():
        return Failure.SIZE
    return Failure.REFUSED


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for inside, real in places.items():
        word = re.sub(rf"{re.escape(inside)}(?=[/=]|$)", lambda _, real=real: real, word)  # type: ignore[misc]
    return word


def _read(handle: int, most: int) -> bytes:
    return os.pread(handle, most, 0)


def describe(runs: Sequence[ToolRun]) -> str:
    """The commands as they would be typed, for the build log."""
    return "".join(f"$ {' '.join(run.argv)}\n" for run in runs)
