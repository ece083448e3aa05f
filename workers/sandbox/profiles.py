"""What a sandboxed process may see and use: limits, profiles, identities.

A profile is data. Both back ends (bubblewrap and plain namespaces) turn the same profile into the same
view, so a promise made here holds for both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

IDENTITIES = ("candidate", "reference", "stub", "builder", "agent", "compiler")
"""Who may live in a sandbox; each is a Unix user of its own where we are root."""

FIRST_UID = 60578
"""Start of a range (60578 to 61183) that neither people, packages nor systemd hand out."""


class SandboxError(RuntimeError):
    """The sandbox could not be set up. One sentence for people; nothing is said about the program."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one sandbox. None means no bound of ours."""

    memory_bytes: int | None = None
    """Per process by address space, for all together by a memory cgroup where the host lets us."""
    processes: int | None = None
    """Processes and threads together."""
    cpu_seconds: int | None = None
    """CPU time per process."""
    file_bytes: int | None = None
    """Largest file that may be written."""
    open_files: int = 256
    address_space: bool = True
    """False where memory is bounded by the cgroup alone, since CUDA reserves huge address ranges."""


@dataclass(frozen=True)
class Profile:
    """The world of one sandboxed process."""

    name: str
    """For messages; says what runs here."""
    identity: str
    """One of IDENTITIES."""
    readable: tuple[Path, ...] = ()
    """Host files and folders, bound read-only at the same place, besides the system's own."""
    mounted: dict[str, Path] = field(default_factory=dict)
    """Host files and folders shown read-only at another place: path inside to host path."""
    writable: tuple[Path, ...] = ()
    """Host folders, bound writable at the same place and handed over to the identity."""
    tmpfs: dict[str, int] = field(default_factory=dict)
    """Folders in memory: path inside to size in bytes. They may hide what `readable` shows."""
    environment: dict[str, str] = field(default_factory=dict)
    """Added to PATH, HOME, LANG, TMPDIR and USER; nothing of our own environment is passed on."""
    limits: Limits = field(default_factory=Limits)
    workdir: str = "/"
    """Where the process starts, as seen inside."""

    def __post_init__(self) -> None:
        if self.identity not in IDENTITIES:
            raise SandboxError(
                f"sandbox {self.name}: identity {self.identity!r} is none of {', '.join(IDENTITIES)}"
            )
        inside = map(Path, (*self.tmpfs, *self.mounted))
        for path in (*self.readable, *self.writable, *self.mounted.values(), *inside):
            if not path.is_absolute() or ".." in path.parts:
                raise SandboxError(f"sandbox {self.name}: {path} must be an absolute path")


def uid_of(identity: str) -> int:
    """The Unix user of an identity where we are root; elsewhere everybody is the caller's user."""
    return FIRST_UID + IDENTITIES.index(identity)


def is_root() -> bool:
    """Whether identities can be real Unix users here."""
    return os.geteuid() == 0


def hand_over(folder: Path, identity: str) -> None:
    """Give a folder and all in it to an identity (root only; else it is the caller's already).

    Links are changed themselves and never followed. Call it again after writing files from outside,
    so that the sandboxed process may change them.
    """
    if not is_root():
        return
    uid = uid_of(identity)
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        for name in (".", *folders, *files):
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if status.st_uid != uid or status.st_gid != uid:
                os.chown(name, uid, uid, dir_fd=handle, follow_symlinks=False)


def environment_of(profile: Profile) -> dict[str, str]:
    """The whole environment of the process."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/tmp",  # noqa: S108 - the sandbox's own
        "TMPDIR": "/tmp",  # noqa: S108
        "LANG": "C.UTF-8",
        "USER": profile.identity,
        "LOGNAME": profile.identity,
        **profile.environment,
    }
