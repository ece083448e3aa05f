"""What a built library may want from the world, read from its symbols. Nothing is loaded.

Covered: needed libraries off the list, run paths, imports that start processes, load code, trace, open the
network or change code in memory; kernels that name torch's own functions or shadow the shims of the
binding; launchers that are missing. Not covered: code that makes system calls by itself or finds functions in
memory. The sandbox of the runner and the judge's own measurements stand behind this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from workers.evaluation.build_elf import Symbols, read_library, read_object
from workers.protocol.diagnostics import Diagnostic, Severity
from workers.protocol.ops import MANIFEST_PATH, OpManifest

_LIBRARY = re.compile(
    r"(?:libc|libm|libmvec|libpthread|librt|libatomic|libstdc\+\+|libgcc_s|libgomp|libomp|libc\+\+|libc\+\+abi"
    r"|libtorch\w*|libc10\w*|ld-linux[\w-]*)\.so(?:\.\d+)*"
)
_FORBIDDEN = {
    "starts processes": "system popen fork vfork clone execl execle execlp execv execve execveat execvp "
    "execvpe fexecve posix_spawn posix_spawnp daemon",
    "loads code": "dlopen dlmopen dlsym dlvsym __libc_dlopen_mode __libc_dlsym",
    "changes code in memory": "mprotect pkey_mprotect",
    "makes raw system calls": "syscall",
    "looks into other processes": "ptrace process_vm_readv process_vm_writev pidfd_open pidfd_getfd",
    "opens the network": "socket socketpair connect bind listen accept accept4 getaddrinfo gethostbyname",
    "leaves the process": "exit _exit _Exit quick_exit kill tgkill pthread_kill sigqueue",
    "changes how others run": "setpriority sched_setscheduler sched_setaffinity pthread_setaffinity_np "
    "prctl setrlimit prlimit ptrace personality",
    "takes signals": "signal sigaction sigaltstack __sysv_signal setitimer timer_create",
}
_WHY = {name: why for why, names in _FORBIDDEN.items() for name in names.split()}
_TORCH_SHIM = re.compile(r"(?:aoti_torch|torch)_\w+")
_TORCH_CPP = re.compile(r"_Z\w*?NK?(?:2at|3c10|5torch|6caffe2)\d")
"""A mangled name with one of torch's namespaces in it."""
_ATEN_OP = re.compile(r"_ZN2at4_ops(?P<length>\d+)(?P<rest>\w+)")
_HARMLESS_OPS = (
    "empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "view", "reshape", "as_strided",
    "contiguous", "detach", "alias", "transpose", "t", "permute", "expand", "select", "slice", "narrow",
    "squeeze", "unsqueeze", "flatten", "numel", "size", "stride", "is_contiguous", "to", "item", "resize_",
)  # fmt: skip


def torch_shims(binding: bytes) -> frozenset[str]:
    """The functions of torch that a binding object calls."""
    names = read_object(binding).undefined
    return frozenset(name for name in names if _TORCH_SHIM.fullmatch(name))


def missing_launchers(manifest: OpManifest, kernels: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """One sentence per launcher that no kernel object defines."""
    defined: set[str] = set()
    for content in kernels.values():
        defined |= read_object(content).defined
    return tuple(
        _missing(op.launcher, defined) for op in manifest.ops if op.launcher not in defined
    )


def _missing(launcher: str, defined: Iterable[str]) -> Diagnostic:
    mangled = re.compile(rf"_Z{len(launcher)}{re.escape(launcher)}")
    hint = f'define it as extern "C" void {launcher}(...) in kernels/'
    if any(mangled.match(name) for name in defined):
        hint = 'it is defined as a C++ function; write extern "C" before it'
    message = f"the launcher {launcher} is in no kernel: {hint}"
    return Diagnostic("audit", Severity.ERROR, message, file=MANIFEST_PATH, code="missing_launcher")


def audit_kernels(kernels: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """Rules for the author's objects, by source path."""
    found: list[Diagnostic] = []
    for path, content in kernels.items():
        symbols = read_object(content)
        for name in sorted(symbols.undefined):
            if _TORCH_SHIM.fullmatch(name) or _TORCH_CPP.match(name):
                found.append(
                    _rejected(f"kernels may not call torch, but this one names {name}", path)
                )
        for name in sorted(symbols.defined):
            if _TORCH_SHIM.fullmatch(name):
                found.append(_rejected(f"kernels may not define torch's own function {name}", path))
        found += _forbidden(symbols, path)
    return tuple(found)


def audit_library(library: bytes) -> tuple[Diagnostic, ...]:
    """Rules for the linked library."""
    symbols = read_library(library)
    found = [
        _rejected(f"the library needs {name}, which is not on the list of allowed libraries")
        for name in symbols.needed
        if not _LIBRARY.fullmatch(name)
    ]
    found += [_rejected(f"the library sets a run path: {path[:80]}") for path in symbols.run_paths]
    found += _forbidden(symbols, "")
    return tuple(found)


def audit_torch_calls(objects: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """For hand-written bindings under the rule `kernels_only`: no computing operator of torch."""
    found = []
    for path, content in objects.items():
        names = {name for symbol in read_object(content).undefined if (name := _aten_op(symbol))}
        for name in sorted(names):
            if not _harmless(name):
                found.append(
                    _rejected(f"only the kernels may compute, but this calls torch's {name}", path)
                )
    return tuple(found)


def _aten_op(symbol: str) -> str:
    match = _ATEN_OP.match(symbol)
    return match["rest"][: int(match["length"])] if match else ""


def _harmless(op: str) -> bool:
    return any(op == name or op.startswith(f"{name}_") for name in _HARMLESS_OPS)


def _forbidden(symbols: Symbols, path: str) -> list[Diagnostic]:
    return [
        _rejected(f"the function {name} is not allowed, since it {_WHY[name]}", path)
        for name in sorted(symbols.undefined)
        if name in _WHY
    ]


def _rejected(message: str, path: str = "") -> Diagnostic:
    return Diagnostic("audit", Severity.ERROR, message, file=path, code="op_rules")
