"""Start a program in a sandbox.

What holds inside, with either back end:
  - its own network (only `lo`), process, IPC, host name, mount and cgroup namespaces;
  - the files of `view.py` and nothing else; the root and /dev sealed read-only;
  - no capabilities, no new privileges, a system call filter (`system_calls.py`);
  - no descriptors besides the three standard streams and `pass_fds`;
  - the profile's limits; memory and processes bounded together where a cgroup can be made, else
    memory per process and processes per user;
  - death with the starting process, and death of all with `kill`;
  - as root a Unix user per identity; as an ordinary user the caller's own, in a user namespace.

What does not hold:
  - `none` only limits, groups and kills; the program sees what its user sees, and what it started may
    outlive a starter that was killed itself;
  - without a memory cgroup many processes may each use the memory of one, and files in memory
    folders come on top (their sizes are bounded by the profile; with bubblewrap the number of empty files is not);
  - as an ordinary user two sandboxes share a Unix user and are kept apart by namespaces alone;
  - a hole in the kernel; timing and cache side channels; CPU time as long as it runs.
The caller (the same user, outside) may stop a sandboxed process and read its memory.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import marshal
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from workers.sandbox import bubblewrap
from workers.sandbox.cgroups import Cgroup
from workers.sandbox.process import SandboxedProcess
from workers.sandbox.profiles import (
    Profile,
    SandboxError,
    environment_of,
    hand_over,
    is_root,
    uid_of,
)
from workers.sandbox.system_calls import filter_program
from workers.sandbox.view import view_of

KINDS = ("bubblewrap", "namespaces", "none")
Stream = int | IO[bytes] | None

_KEEPER = Path(__file__).with_name("keeper.py")
_JOIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1" || exit 125; shift; n=$((n-1)); done; exec "$@"'


def spawn(
    profile: Profile,
    argv: Sequence[str],
    *,
    kind: str,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Iterable[int] = (),
    cpus: Iterable[int] | None = None,
) -> SandboxedProcess:
    """Start `argv` under a profile; returns before the program runs.

    `kind` is one of KINDS, as `choose` found it. Streams are as for `subprocess.Popen`, except that None
    means /dev/null. `cpus` pins the whole sandbox. Raises `SandboxError` where the profile cannot be had here.
    """
    if kind not in KINDS:
        raise SandboxError(f"sandbox kind {kind!r} is none of {', '.join(KINDS)}")
    if is_root() and kind != "none":
        for folder in profile.writable:
            hand_over(folder, profile.identity)
    cgroup = Cgroup.create(profile.limits.memory_bytes, profile.limits.processes)
    with contextlib.ExitStack() as handles:
        try:
            read_end, write_end = os.pipe()
            handles.callback(os.close, write_end)
            words, extra = _command_line(profile, argv, kind, cgroup, write_end, handles)
            streams = [subprocess.DEVNULL if s is None else s for s in (stdin, stdout, stderr)]
            fds = tuple({*pass_fds, *extra, write_end})
            environment = {"PATH": bubblewrap.SYSTEM_PATH}
            outer = (
                _starter(os.getpid())
                .submit(_start, words, streams, fds, cpus, environment)
                .result()
            )
        except BaseException:
            os.close(read_end)
            if cgroup is not None:
                cgroup.remove()
            raise
    return SandboxedProcess(outer, read_end, cgroup, kind)


def _command_line(
    profile: Profile,
    argv: Sequence[str],
    kind: str,
    cgroup: Cgroup | None,
    status: int,
    handles: contextlib.ExitStack,
) -> tuple[list[str], list[int]]:
    """The outer command and the descriptors that it needs."""
    limits = limits_of(profile, kind, cgroup)
    entrances = list(cgroup.entrances) if cgroup else []
    root = is_root()
    if kind == "bubblewrap":
        program = bubblewrap.program()
        if program is None:
            raise SandboxError("bubblewrap is not installed")
        bpf = filter_program()
        bpf_handle = _in_memory(bpf, handles) if bpf else None
        words = bubblewrap.options(profile, view_of(profile), root=root, filter_handle=bpf_handle)
        words += ["--json-status-fd", str(status)]
        # Under a number of its own, since bubblewrap closes the other one before the command.
        life = os.dup(status)
        handles.callback(os.close, life)
        text = _in_memory(b"".join(word.encode() + b"\0" for word in words), handles)
        line = [program, "--args", str(text), "--"]
        line += bubblewrap.command(profile, argv, limits, root=root, life=life)
        if entrances:
            line = ["/bin/sh", "-c", _JOIN, "sh", str(len(entrances)), *entrances, *line]
        return line, [text, life] if bpf_handle is None else [text, life, bpf_handle]
    plan = plan_of(profile, argv, kind, cgroup, limits)
    handle = _in_memory(marshal.dumps(plan), handles)
    return [sys.executable, "-I", "-S", str(_KEEPER), str(handle), str(status)], [handle]


def plan_of(
    profile: Profile,
    argv: Sequence[str],
    kind: str,
    cgroup: Cgroup | None,
    limits: list[tuple[str, int, int]],
) -> dict[str, object]:
    """What `keeper.py` has to know for one sandbox of kind `namespaces` or `none`."""
    plan: dict[str, object] = {
        "kind": kind,
        "parent": os.getpid(),
        "uid": uid_of(profile.identity) if is_root() else None,
        "steps": [],
        "filter": b"",
        "cgroups": list(cgroup.entrances) if cgroup else [],
        "limits": limits,
        "argv": list(argv),
        "environment": environment_of(profile),
        "workdir": profile.workdir,
    }
    if kind == "namespaces":
        steps = view_of(profile)
        plan["steps"] = [(s.kind.value, s.path, s.source, s.size, s.mode) for s in steps]
        plan["filter"] = filter_program()
    return plan


def limits_of(profile: Profile, kind: str, cgroup: Cgroup | None) -> list[tuple[str, int, int]]:
    """Resource limits to set on the program itself: name, soft, hard."""
    limits = profile.limits
    wanted = [("RLIMIT_NOFILE", limits.open_files), ("RLIMIT_CORE", 0)]
    if limits.file_bytes is not None:
        wanted.append(("RLIMIT_FSIZE", limits.file_bytes))
    if limits.memory_bytes is not None and limits.address_space:
        wanted.append(("RLIMIT_AS", limits.memory_bytes))
    if limits.processes is not None and (cgroup is None or cgroup.pids is None):
        wanted.append(("RLIMIT_NPROC", limits.processes + _shared_tasks(profile, kind)))
    pairs = [(name, value, value) for name, value in wanted]
    if limits.cpu_seconds is not None:
        # First a signal with a name of its own, so that it can be told from a kill for memory.
        pairs.append(("RLIMIT_CPU", limits.cpu_seconds, limits.cpu_seconds + 1))
    return pairs


def _shared_tasks(profile: Profile, kind: str) -> int:
    """Tasks that count towards the same RLIMIT_NPROC before the sandbox has any.

    Since Linux 5.14 a user namespace has a count of its own; everywhere else the count is the user's.
    """
    root = is_root()
    if not root and kind != "none" and _linux() >= (5, 14):
        return 0
    uid = uid_of(profile.identity) if root and kind != "none" else os.geteuid()
    return sum(_tasks(path) for path in Path("/proc").glob("[0-9]*") if _owner(path) == uid)


def _owner(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_uid
    return None


def _tasks(path: Path) -> int:
    with contextlib.suppress(OSError):
        return len(list((path / "task").iterdir()))
    return 0


def _linux() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())


def _in_memory(content: bytes, handles: contextlib.ExitStack) -> int:
    """A file in memory, read from its start by the child; closed here when the child has started."""
    handle = os.memfd_create("warpsmith", os.MFD_CLOEXEC)
    handles.callback(os.close, handle)
    os.write(handle, content)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


@functools.cache
def _starter(process: int) -> concurrent.futures.ThreadPoolExecutor:
    """The one thread that starts children, per process (a fork has none of its parent's threads).

    "Die with parent" means the thread that started the child, so a passing thread must not do it.
    """
    return concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=f"sandbox-starter-{process}")


def start(
    words: list[str], environment: Mapping[str, str], fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start a program of our own, without a sandbox, from the thread that children may outlive nothing of."""
    streams: list[Stream] = [subprocess.DEVNULL, subprocess.DEVNULL, None]
    return _starter(os.getpid()).submit(_start, words, streams, fds, None, environment).result()


def _start(
    words: list[str],
    streams: Sequence[Stream],
    fds: tuple[int, ...],
    cpus: Iterable[int] | None,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Runs in the starter thread, whose CPU set the child inherits."""
    usual = os.sched_getaffinity(0)
    try:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        return subprocess.Popen(  # noqa: S603 - this is the place where programs are started
            words,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=fds,
            cwd="/",
            env=dict(environment),
            start_new_session=True,
        )
    finally:
        if cpus is not None:
            os.sched_setaffinity(0, usual)
