"""Whether a process is still there, told by a lock that the kernel releases when the process ends.

A worker keeps a lock on a file of its own in a folder that it shares with the site. Whoever finds the file
unlocked knows at once that the worker is gone, however it ended, and however slow a living one may be: no
time-out is involved. Only the kernel that holds the lock can tell, so the file names the boot of its host,
and readers on another host learn nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import time
from pathlib import Path

PRESENCE_FOLDER = "alive"
"""Where workers keep their files, in the artifact store's root, which they share with the site."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")

FORGOTTEN_AFTER_S = 24 * 3600.0
"""What a killed process left is kept so long for those who may still ask."""


def name_of_this_process() -> str:
    """A name that no other process has or will have: host, process number, some chance."""
    host = _UNSAFE.sub("-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


class Presence:
    """Says that this process is there, until `leave` or its end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._path = folder / name
        self._handle: int | None = None
        with contextlib.suppress(OSError):  # without the file, others go by our messages alone
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = _locked(self._path)

    def leave(self) -> None:
        """Take the file away: nothing is left to be asked about."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def is_gone(folder: Path, name: str) -> bool:
    """Whether a process has certainly ended. False says only that this is not known."""
    if not name or _UNSAFE.search(name) or name.startswith("."):
        return False
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(handle, 64) == _boot() != b"" and _free(handle)
    finally:
        os.close(handle)


def forget_old(folder: Path) -> None:
    """Delete what processes left that were killed long ago."""
    before = time.time() - FORGOTTEN_AFTER_S
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before and is_gone(folder, path.name):
                    path.unlink()


def _locked(path: Path) -> int:
    """Make the file and lock it before it says anything; raises OSError where locks are not to be had."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _boot())
    except OSError:
        path.unlink(missing_ok=True)
        os.close(handle)
        raise
    return handle


def _free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot() -> bytes:
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""
