"""One lock per device, taken by every judge of this machine: workers, command line, bench, trainer.

Two timings at once would disturb each other, so the second waits. The lock is the kernel's (flock) and
goes with its process, so nothing can be left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


class DeviceBusy(RuntimeError):
    """Somebody else held the device for longer than we were willing to wait."""


@contextlib.contextmanager
def device_lock(device: str, limit_s: float) -> Iterator[None]:
    """Hold the lock of a device (`cpu` or a GPU's UUID); raises `DeviceBusy` after `limit_s` seconds."""
    path = Path(tempfile.gettempdir()) / f"warpsmith-device-{device}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        with contextlib.suppress(PermissionError):
            os.fchmod(handle, 0o666)  # another user's worker must be able to wait for us
        _acquire(handle, device, limit_s)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, device: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DeviceBusy(
                    f"device {device} has been measuring something else for over {limit_s:.0f} s"
                ) from None
            time.sleep(0.02)
