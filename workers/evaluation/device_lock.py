"""One lock per device, taken by every judge of this machine: workers, command line, bench, trainer.

Two timings at once would disturb each other, so the second waits. Work that nobody waits for gives way:
whoever does other work says so beside the lock (`foreground`), and who holds the device for less (`wanted`)
leaves it. Both locks are the kernel's (flock) and go with their process, so nothing can be left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOK_AGAIN_S = 0.02


class DeviceBusy(RuntimeError):
    """Somebody else held the device for longer than we were willing to wait."""


class GivenBack(Exception):
    """The job was left unfinished, and not for anything that it did; the text says why."""


def _never() -> str:
    return ""


@contextlib.contextmanager
def device_lock(
    device: str, limit_s: float, why_leave: Callable[[], str] = _never
) -> Iterator[None]:
    """Hold the lock of a device (`cpu` or a GPU's UUID).

    Raises `DeviceBusy` after `limit_s` seconds, `GivenBack` as soon as `why_leave` has a reason.
    """
    handle = _open(device)
    try:
        _acquire(handle, device, limit_s, why_leave)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def foreground(device: str) -> Iterator[None]:
    """Say for the length of a block that somebody waits for work on this device, or for what leads to it."""
    handle = _open(f"{device}-wanted")
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def wanted(device: str) -> bool:
    """Whether some process of this machine is in `foreground` for a device."""
    handle = _open(f"{device}-wanted")
    try:
        # Another one who asks just now looks like somebody who waits, but not three times.
        return not any(_can_lock(handle, pause_s) for pause_s in (0.0, 0.005, 0.01))
    finally:
        os.close(handle)


def _open(name: str) -> int:
    path = Path(tempfile.gettempdir()) / f"warpsmith-device-{name}.lock"
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Without O_CREAT, with which the kernel refuses another user's file in a shared folder.
        handle = os.open(path, flags)
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, 0o666)  # another user's worker must be able to wait for us
    return handle


def _acquire(handle: int, device: str, limit_s: float, why_leave: Callable[[], str]) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        if why := why_leave():
            raise GivenBack(why)
        if _can_lock(handle):
            return
        if time.monotonic() > deadline:
            raise DeviceBusy(
                f"device {device} has been measuring something else for over {limit_s:.0f} s"
            )
        time.sleep(_LOOK_AGAIN_S)


def _can_lock(handle: int, pause_s: float = 0.0) -> bool:
    """Take the lock if it is free; closing the handle gives it back."""
    time.sleep(pause_s)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
