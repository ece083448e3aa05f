"""Reading and writing the memory of a runner from outside, and the peak of what it used.

`process_vm_readv` and `process_vm_writev` copy between address spaces; nothing of the judge is ever
mapped into a runner. Addresses come from the runner and are claims: a wrong one gives an error here
or wrong bytes for the comparison, never harm to the judge.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path


class MemoryGone(OSError):
    """The runner's memory could not be reached at the addresses that it named."""


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
for _name in ("process_vm_readv", "process_vm_writev"):
    getattr(_libc, _name).restype = ctypes.c_ssize_t
    getattr(_libc, _name).argtypes = (
        ctypes.c_int,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.c_ulong,
    )

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Bits of an entry of the page map.
_EXCLUSIVE, _FILE_OR_SHARED, _SWAPPED, _PRESENT = 1 << 56, 1 << 61, 1 << 62, 1 << 63

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # glibc's numbers of malloc's options

# One call moves at most 2 GiB; stay well below.
_CHUNK = 1 << 30


def read_into(pid: int, remote: int, local: int, length: int) -> None:
    """Copy `length` bytes from address `remote` of process `pid` to our address `local`."""
    _transfer("process_vm_readv", pid, remote, local, length)


def write_from(pid: int, remote: int, local: int, length: int) -> None:
    """Copy `length` bytes from our address `local` to address `remote` of process `pid`."""
    _transfer("process_vm_writev", pid, remote, local, length)


def _transfer(name: str, pid: int, remote: int, local: int, length: int) -> None:
    function = getattr(_libc, name)
    done = 0
    while done < length:
        size = min(length - done, _CHUNK)
        mine = _IoVec(local + done, size)
        theirs = _IoVec(remote + done, size)
        moved = function(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
        if moved <= 0:
            code = ctypes.get_errno()
            raise MemoryGone(code, f"{name} of {length} bytes: {os.strerror(code)}")
        done += moved


def gather_into(pid: int, addresses: Sequence[int], size: int, local: int) -> None:
    """Copy `size` bytes from each address of process `pid`, one after the other, to our address `local`."""
    mine = _IoVec(local, size * len(addresses))
    theirs = (_IoVec * len(addresses))(*(_IoVec(address, size) for address in addresses))
    moved = _libc.process_vm_readv(pid, ctypes.byref(mine), 1, theirs, len(addresses), 0)
    if moved != size * len(addresses):
        code = ctypes.get_errno()
        raise MemoryGone(code, f"process_vm_readv of {len(addresses)} pieces: {os.strerror(code)}")


def foreign_pages(pid: int, addresses: Sequence[int]) -> int:
    """How many addresses of a process lie on pages other than private, written memory of its own.

    A page counts if it is absent, a file's, shared with another mapping, or the kernel's page of zeros.
    0 where the kernel shows no page map.
    """
    try:
        handle = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    except OSError:
        return 0
    try:
        pages = {address // _PAGE for address in addresses}
        entries = [os.pread(handle, 8, 8 * page) for page in pages]
    finally:
        os.close(handle)
    return sum(_foreign(int.from_bytes(entry, "little")) for entry in entries if len(entry) == 8)


def _foreign(entry: int) -> bool:
    if entry & _SWAPPED:
        return False
    return not entry & _PRESENT or bool(entry & _FILE_OR_SHARED) or not entry & _EXCLUSIVE


def keep_freed_memory() -> None:
    """Let malloc keep what the judge frees: it draws, copies and compares tensors of the same sizes over
    and over, and fetching zeroed pages from the kernel for each takes longer than the work itself."""
    for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20)):
        _libc.mallopt(option, value)


def reset_peak(pid: int) -> int:
    """Set the peak of resident memory back to the present; returns the present bytes, 0 if unknown."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return 0
    return _status_kib(pid, "VmRSS") * 1024


def peak(pid: int) -> int:
    """Peak of resident memory in bytes since `reset_peak`, 0 if unknown."""
    return _status_kib(pid, "VmHWM") * 1024


def _status_kib(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0
