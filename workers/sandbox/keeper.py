"""Makes a sandbox out of plain Linux namespaces, without bubblewrap. Started as a program of its own,

    python -I -S keeper.py PLAN_FD STATUS_FD

or called in a fork of a warm process (`workers/device/zygote`), which then goes on inside instead of
starting a program. Standard library only and few modules, because this start is paid for by every
sandboxed process. The plan (a marshalled dictionary, written by `spawn.py` under the same
interpreter) is all it knows. Three processes come out of it:

    keeper     outside; joins the control groups, enters the namespaces, waits
    first      process 1 inside; builds the file system, gives up every privilege, reaps
    command    the program, with limits, without privileges, without descriptors of ours

Each dies with its parent, and the kernel kills all that is inside when `first` dies. News go to STATUS_FD
as JSON lines: `child-pid`, then `exit-code` or `exit-signal`, or `error`. Needs Linux 5.12.
"""

# pathlib would cost start-up; /tmp is only the place where the new root is built.
# ruff: noqa: PTH102, PTH103, PTH110, PTH112, PTH120, PTH123, PTH211, S108
from __future__ import annotations

import ctypes
import marshal
import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Plan = dict[str, Any]
    Program = Callable[[Plan], NoReturn]
    """What the command does once it is inside: never returns, raises OSError where it cannot start."""

LIBC = ctypes.CDLL(None, use_errno=True)

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    4096,
    16384,
    1 << 18,
)
MNT_DETACH = 2
NR_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
NEW_MOUNT, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
SIGKILL = 9
SETUP_FAILED = 125


class MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


class CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class SocketFilter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class InterfaceRequest(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 16),
        ("flags", ctypes.c_short),
        ("rest", ctypes.c_char * 22),
    ]


def check(result: int, what: str) -> int:
    """Raise OSError with the kernel's reason where a C function failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int, what: str) -> None:
    words = [ctypes.c_ulong(word) for word in (value, 0, 0, 0)]
    check(LIBC.prctl(option, *words), what)


def report(status: int, key: str, value: int | str) -> None:
    """Write one line of news; text is cut to what needs no escaping in JSON."""
    if isinstance(value, str):
        safe = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else "?" for c in value)
        value = f'"{safe[:400]}"'
    os.write(status, f'{{"{key}": {value}}}\n'.encode())


def die_with(parent: int) -> None:
    """Be killed when the parent dies, also if it has died already."""
    prctl(PR_SET_PDEATHSIG, SIGKILL, "die with parent")
    if parent and os.getppid() != parent:
        os._exit(SETUP_FAILED)


def join_groups(plan: Plan) -> None:
    """Enter the control groups; every later process inherits them."""
    for entrance in plan["cgroups"]:
        with open(entrance, "wb", buffering=0) as file:
            file.write(b"0")


def enter_namespaces(plan: Plan) -> None:
    join_groups(plan)
    uid, gid = os.getuid(), os.getgid()
    spaces = NEW_MOUNT | NEW_UTS | NEW_IPC | NEW_PID | NEW_NET
    if plan["uid"] is None:
        check(LIBC.unshare(NEW_USER), "new user namespace")
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    check(LIBC.unshare(spaces), "new namespaces")
    LIBC.unshare(NEW_CGROUP)


def mount(
    source: str | None,
    target: str,
    kind: str | None = None,
    flags: int = 0,
    data: str | None = None,
) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, data)]
    result = LIBC.mount(*words[:3], ctypes.c_ulong(flags), words[3])
    check(result, f"mount {source} on {target}")


def set_attributes(path: str, attributes: int, flags: int = 0) -> None:
    request = MountAttributes(attributes, 0, 0, 0)
    result = LIBC.syscall(
        ctypes.c_long(NR_MOUNT_SETATTR),
        ctypes.c_long(AT_FDCWD),
        path.encode(),
        ctypes.c_ulong(flags),
        ctypes.byref(request),
        ctypes.c_size_t(ctypes.sizeof(request)),
    )
    check(result, f"attributes of {path} (needs Linux 5.12)")


def build_root(steps: list[tuple[str, str, str, int, int]]) -> None:
    """Build the new root from the steps while the old one is still at hand, then drop the old one."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for name in ("/tmp/old", "/tmp/new"):
        os.mkdir(name)
    check(LIBC.pivot_root(b"/tmp", b"/tmp/old"), "pivot_root")
    os.chdir("/")
    mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755")
    for step in steps:
        take(*step)
    check(LIBC.umount2(b"/old", MNT_DETACH), "leave the old root")
    os.chdir("/new")
    check(LIBC.pivot_root(b".", b"."), "pivot_root")
    check(LIBC.umount2(b".", MNT_DETACH), "leave the first root")
    os.chdir("/")


def take(kind: str, path: str, source: str, size: int, mode: int) -> None:
    target, origin = "/new" + path.rstrip("/"), "/old" + source
    if kind == "folder":
        os.makedirs(target, mode=0o755, exist_ok=True)
    elif kind == "memory":
        os.makedirs(target, exist_ok=True)
        inodes = max(1024, size // 4096)
        options = f"size={size},mode={mode:o},nr_inodes={inodes}"
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)
    elif kind == "link":
        os.symlink(source, target)
    elif kind == "proc":
        os.makedirs(target, exist_ok=True)
        mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    elif kind == "seal":
        set_attributes(target or "/new", ATTR_RDONLY)
    else:
        bind(kind, origin, target)


def bind(kind: str, origin: str, target: str) -> None:
    if not os.path.exists(target):
        if os.path.isdir(origin):
            os.makedirs(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mount(origin, target, flags=MS_BIND | MS_REC)
    attributes = ATTR_NOSUID
    attributes |= 0 if kind == "device" else ATTR_NODEV
    attributes |= ATTR_RDONLY if kind == "show" else 0
    set_attributes(target, attributes, AT_RECURSIVE)


def raise_loopback() -> None:
    """Bring up `lo`, the only network device of the new network namespace."""
    handle = check(LIBC.socket(2, 1, 0), "socket")
    request = InterfaceRequest(b"lo", 1 | 64, b"")
    check(LIBC.ioctl(handle, ctypes.c_ulong(0x8914), ctypes.byref(request)), "bring up lo")
    os.close(handle)


def give_up_privileges(uid: int | None) -> None:
    """Lose every capability for ever, become the identity's user where we are root."""
    prctl(PR_SET_NO_NEW_PRIVS, 1, "no new privileges")
    prctl(PR_CAP_AMBIENT, 4, "ambient capabilities")
    for capability in range(64):
        if LIBC.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = CapabilityHeader(0x20080522, 0)
    check(LIBC.capset(ctypes.byref(header), (ctypes.c_uint32 * 6)()), "drop capabilities")


def execute(plan: Plan) -> NoReturn:
    """Become another program."""
    # Python ignores these two, and ignoring is inherited.
    for number in (13, 25):
        LIBC.signal(number, ctypes.c_void_p(0))
    os.execvpe(plan["argv"][0], plan["argv"], plan["environment"])  # noqa: S606


def run_command(plan: Plan, status: int, program: Program) -> NoReturn:
    """Take on the limits and run the program. Never returns."""
    try:
        os.setsid()
        if plan["kind"] == "namespaces":
            give_up_privileges(plan["uid"])
        else:
            prctl(PR_SET_NO_NEW_PRIVS, 1, "no new privileges")
        die_with(0)
        os.chdir(plan["workdir"])
        for name, soft, hard in plan["limits"]:
            resource.setrlimit(getattr(resource, name), (soft, hard))
        if plan["filter"]:
            rules = SocketFilter(len(plan["filter"]) // 8, plan["filter"])
            check(LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(rules)), "seccomp")
        program(plan)
    except OSError as error:
        report(status, "error", f"{plan['argv'][0]}: {error}")
    finally:
        os._exit(SETUP_FAILED)


def reap(command: int, status: int) -> NoReturn:
    """Wait for the command while taking in orphans, and tell how it ended."""
    while True:
        pid, state = os.waitpid(-1, 0)
        if pid != command:
            continue
        if os.WIFSIGNALED(state):
            report(status, "exit-signal", os.WTERMSIG(state))
            os._exit(128 + os.WTERMSIG(state))
        report(status, "exit-code", os.WEXITSTATUS(state))
        os._exit(os.WEXITSTATUS(state))


def close_others(keep: int) -> None:
    """Close all but the standard streams and one descriptor."""
    os.closerange(3, keep)
    os.closerange(keep + 1, 65536)


def first_process(plan: Plan, status: int, life: int, program: Program) -> NoReturn:
    """Process 1 inside. Never returns."""
    try:
        die_with(0)
        # The keeper has no number in here, so a byte from it stands for its being alive.
        if os.read(life, 1) != b"k":
            os._exit(SETUP_FAILED)
        build_root(plan["steps"])
        raise_loopback()
        check(LIBC.sethostname(b"sandbox", 7), "host name")
        command = os.fork()
        if command == 0:
            run_command(plan, status, program)
        give_up_privileges(plan["uid"])
        # Same user as the command, so it must not be open to its ptrace.
        prctl(PR_SET_DUMPABLE, 0, "not dumpable")
        die_with(0)
        LIBC.signal(2, ctypes.c_void_p(0))
        close_others(status)
        reap(command, status)
    except OSError as error:
        report(status, "error", str(error))
    finally:
        os._exit(SETUP_FAILED)


def keep_namespaces(plan: Plan, status: int, program: Program) -> NoReturn:
    enter_namespaces(plan)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        first_process(plan, status, read_end, program)
    report(status, "child-pid", child)
    os.write(write_end, b"k")
    close_others(status)
    _, state = os.waitpid(child, 0)
    if os.WIFSIGNALED(state):
        report(status, "exit-signal", os.WTERMSIG(state))
        os._exit(128 + os.WTERMSIG(state))
    os._exit(os.WEXITSTATUS(state))


def keep_group(plan: Plan, status: int, program: Program) -> NoReturn:
    """Without a sandbox: only limits, and a keeper to which orphans come home so that they can be found."""
    join_groups(plan)
    prctl(PR_SET_CHILD_SUBREAPER, 1, "take in orphans")
    command = os.fork()
    if command == 0:
        run_command(plan, status, program)
    report(status, "child-pid", command)
    close_others(status)
    reap(command, status)


def keep(plan: Plan, status: int, program: Program) -> NoReturn:
    """Be the keeper of one sandbox. Never returns."""
    try:
        die_with(plan["parent"])
        if plan["kind"] == "namespaces":
            keep_namespaces(plan, status, program)
        else:
            keep_group(plan, status, program)
    except OSError as error:
        report(status, "error", str(error))
    os._exit(SETUP_FAILED)


def main() -> None:
    plan_handle, status = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(status, False)
    with open(plan_handle, "rb") as file:
        plan = marshal.loads(file.read())  # noqa: S302 - written by our own spawner
    keep(plan, status, execute)


if __name__ == "__main__":
    main()
