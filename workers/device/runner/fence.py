"""A second fence, put up inside a candidate's runner before its code is there: no other process, no other core.

The sandbox's own filter lets processes start, because compilers and torch.compile need that. A candidate does
not: a process of its own could work, or wake the runner up, while the runner stands. Threads stay
allowed. Not covered: processors other than x86-64 and AArch64, where the judge's checks stand alone.
"""

from __future__ import annotations

import ctypes
import platform
import struct

_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _FIRST_ARGUMENT_AT = 0, 16
_CLONE_THREAD = 0x10000
_CLONE3 = 435
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CLONE = {"x86_64": 56, "aarch64": 220}
# fork, vfork and sched_setaffinity; sched_setaffinity alone where the others do not exist.
_REFUSED = {"x86_64": (57, 58, 203), "aarch64": (122,)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def program(machine: str) -> bytes:
    """The filter as classic BPF. It stands behind the sandbox's, which checks the architecture."""
    code = [(_LOAD, 0, 0, _NUMBER_AT)]
    for number in _REFUSED[machine]:
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    code += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ENOSYS)]
    code += [
        (_JUMP_EQUAL, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def stay_alone() -> bool:
    """Refuse new processes and other cores to all threads of this process, for good."""
    machine = platform.machine()
    if machine not in _SECCOMP:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program(machine))
    filter_ = _Program(len(code) // 8, ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    done = libc.syscall(
        ctypes.c_long(_SECCOMP[machine]),
        ctypes.c_ulong(_SET_MODE_FILTER),
        ctypes.c_ulong(_ALL_THREADS),
        ctypes.byref(filter_),
    )
    return bool(done == 0)
