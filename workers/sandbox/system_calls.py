"""A seccomp filter: system calls that no kernel, model or compiler needs and that widen the way out.

Refused with EPERM: tracing and reading other processes, mounting, new or foreign namespaces, io_uring, bpf, perf,
userfaultfd, key rings, module and kexec loading, clocks. `clone3` answers ENOSYS, so that libc falls back to
`clone`, whose flags a filter can read. Not covered: everything else that Linux offers to any process; the
namespaces and the missing capabilities carry the weight, this is a second fence. On processors
other than x86-64 and AArch64 there is no filter.
"""

from __future__ import annotations

import platform
import struct

_ALLOW = 0x7FFF0000
_EPERM = 0x00050000 | 1
_ENOSYS = 0x00050000 | 38
_LOAD, _JUMP_EQUAL, _JUMP_NOT_BELOW, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32_BIT = 0x40000000
_NAMESPACE_FLAGS = 0x7E020000
_CLONE3 = 435

_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)
"""io_uring_*, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd, mount_setattr"""
_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "keyctl": 250, "add_key": 248, "request_key": 249,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320,
    "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "syslog": 103,
    "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "fanotify_init": 300, "iopl": 172, "ioperm": 173,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
    "keyctl": 219, "add_key": 217, "request_key": 218,
    "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60, "syslog": 116,
    "settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266,
    "open_by_handle_at": 265, "name_to_handle_at": 264, "fanotify_init": 262,
}  # fmt: skip
_REFUSED = {"x86_64": _X86_64, "aarch64": _AARCH64}


def filter_program(machine: str = "") -> bytes:
    """The filter as classic BPF, eight bytes per instruction; empty where the processor is unknown."""
    machine = machine or platform.machine()
    if machine not in _ARCH:
        return b""
    code = [(_LOAD, 0, 0, _ARCH_AT), (_JUMP_EQUAL, 1, 0, _ARCH[machine]), (_RETURN, 0, 0, _EPERM)]
    code.append((_LOAD, 0, 0, _NUMBER_AT))
    if machine == "x86_64":
        code += [(_JUMP_NOT_BELOW, 0, 1, _X32_BIT), (_RETURN, 0, 0, _EPERM)]
    for number in (*sorted(_REFUSED[machine].values()), *_COMMON):
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    code += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ENOSYS)]
    code += [
        (_JUMP_EQUAL, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_JUMP_ANY_BIT, 0, 1, _NAMESPACE_FLAGS),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)
