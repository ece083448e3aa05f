"""A memory and process limit for a whole sandbox through control groups, where the host lets us.

Both generations are used: version 1 with one folder per controller, version 2 below any ancestor whose
controllers are handed down. Where neither can be written, `Cgroup.create` gives None and resource
limits per process stand alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "warpsmith-"
_SLACK_PROCESSES = 3
"""The sandbox's own first processes, which live in the group as well."""
_numbers = itertools.count()

Wanted = dict[str, list[tuple[str, str, bool]]]
"""Per controller the files to write: name, value, and whether the group is useless without it."""


@dataclass(frozen=True)
class Cgroup:
    """One group per controller (version 1) or one for all (version 2)."""

    memory: Path | None
    pids: Path | None

    @classmethod
    def create(cls, memory_bytes: int | None, processes: int | None) -> Cgroup | None:
        """Make and limit a group; None where nothing is to be limited or nothing can be."""
        if memory_bytes is None and processes is None:
            return None
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        wanted: Wanted = {}
        if memory_bytes is not None:
            wanted["memory"] = _memory_files(memory_bytes)
        if processes is not None:
            wanted["pids"] = [("pids.max", str(processes + _SLACK_PROCESSES), True)]
        made = _one_for_all(wanted, name) if _unified() else _one_for_each(wanted, name)
        return cls(made.get("memory"), made.get("pids")) if made else None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each folder once."""
        return tuple(dict.fromkeys(path for path in (self.memory, self.pids) if path))

    @property
    def entrances(self) -> tuple[str, ...]:
        """Files into which a process writes `0` to join."""
        return tuple(str(path / "cgroup.procs") for path in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a member for memory."""
        if self.memory is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            for line in _read(self.memory / name).splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.strip() not in ("", "0"):
                    return True
        return False

    def peak_bytes(self) -> int | None:
        """The most memory that all members held together so far; None where it is not known."""
        if self.memory is None:
            return None
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            text = _read(self.memory / name).strip()
            if text.isdigit():
                return int(text)
        return None

    def remove(self, timeout_s: float = 2.0) -> None:
        """Kill what is left inside and remove the group."""
        deadline = time.monotonic() + timeout_s
        for folder in self.folders:
            while folder.exists() and not _removed(folder) and time.monotonic() < deadline:
                for pid in _read(folder / "cgroup.procs").split():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.002)


def _unified() -> bool:
    """Whether this is version 2, where a process is in one group only."""
    return (_ROOT / "cgroup.controllers").exists()


def _one_for_each(wanted: Wanted, name: str) -> dict[str, Path]:
    """Version 1: a group in the tree of each controller."""
    made = {controller: _make((controller,), name, files) for controller, files in wanted.items()}
    return {controller: folder for controller, folder in made.items() if folder}


def _one_for_all(wanted: Wanted, name: str) -> dict[str, Path]:
    """Version 2: one group with all controllers, or else with the first that can be had."""
    choices = [tuple(wanted), *((controller,) for controller in wanted)]
    for controllers in choices:
        files = [file for controller in controllers for file in wanted[controller]]
        if folder := _make(controllers, name, files):
            return dict.fromkeys(controllers, folder)
    return {}


def _memory_files(limit: int) -> list[tuple[str, str, bool]]:
    """How a memory limit is written in either version."""
    if _unified():
        return [("memory.max", str(limit), True), ("memory.swap.max", "0", False)]
    return [
        ("memory.limit_in_bytes", str(limit), True),
        ("memory.memsw.limit_in_bytes", str(limit), False),
    ]


def _make(
    controllers: tuple[str, ...], name: str, files: list[tuple[str, str, bool]]
) -> Path | None:
    for parent in _parents(controllers):
        if not _works(parent):
            continue
        folder = parent / name
        try:
            folder.mkdir()
            for file, value, needed in files:
                _set(folder / file, value, needed)
        except OSError:
            _removed(folder)
            continue
        _sweep(parent)
        return folder
    return None


@functools.cache
def _works(parent: Path) -> bool:
    """Whether a process of ours may really join a group made here; tried once, since rules differ by host."""
    folder = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    try:
        folder.mkdir()
        command = ["/bin/sh", "-c", 'echo 0 >"$1"', "sh", str(folder / "cgroup.procs")]
        return subprocess.run(command, capture_output=True, timeout=5).returncode == 0  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        _removed(folder)


def _set(file: Path, value: str, needed: bool) -> None:
    try:
        file.write_text(value)
    except OSError:
        if needed:
            raise


def _parents(controllers: tuple[str, ...]) -> list[Path]:
    """Groups under which a new one could be made, nearest first."""
    lines = [line.split(":", 2) for line in _read(Path("/proc/self/cgroup")).splitlines()]
    if _unified():
        own = next((path for number, _, path in lines if number == "0"), "/")
        here = _ROOT / own.lstrip("/")
        chain = [folder for folder in (here, *here.parents) if folder.is_relative_to(_ROOT)]
        return [
            folder
            for folder in chain
            if set(controllers) <= set(_read(folder / "cgroup.subtree_control").split())
        ]
    own = next((path for _, names, path in lines if controllers[0] in names.split(",")), "/")
    root = _ROOT / controllers[0]
    return [folder for folder in (root / own.lstrip("/"), root) if folder.is_dir()]


def _sweep(parent: Path) -> None:
    """Remove groups of ours whose maker is gone (it was killed before it could do so itself)."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if maker.isdigit() and not Path("/proc", maker).exists():
            _removed(folder)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
