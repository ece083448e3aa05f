"""Which sandbox this machine offers. Each is really tried once per process."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox import bubblewrap
from workers.sandbox.process import Ended
from workers.sandbox.profiles import Limits, Profile, SandboxError, is_root
from workers.sandbox.spawn import spawn

_TRY_S = 10.0
_SWITCHES = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
)  # fmt: skip
_CAP_SYS_ADMIN = 21


@dataclass(frozen=True)
class Choice:
    """Either a kind for `spawn`, or the problem that keeps this machine from having any."""

    kind: str = ""
    problem: str = ""
    """One sentence with the one command that helps; empty when there is a kind."""


def choose(setting: str) -> Choice:
    """Settle `auto`, or check that the wanted kind works here. `none` is only ever taken by name."""
    if setting == "none":
        return Choice("none")
    wanted = ("bubblewrap", "namespaces") if setting == "auto" else (setting,)
    reasons = []
    for kind in wanted:
        reason = _try(kind)
        if not reason:
            return Choice(kind)
        reasons.append(f"{kind}: {reason}")
    return Choice(problem=f"No sandbox works here ({'; '.join(reasons)}); {_remedy(wanted)}")


@functools.cache
def _try(kind: str) -> str:
    """Empty if a harmless program runs in it, else why not."""
    profile = Profile("trial", "builder", tmpfs={"/tmp": 1 << 20}, limits=Limits(open_files=64))  # noqa: S108
    try:
        with spawn(profile, ["/bin/true"], kind=kind, stderr=subprocess.PIPE) as process:
            ended: Ended = process.wait(_TRY_S)
            said = process.stderr.read(2000) if process.stderr else b""
    except (SandboxError, TimeoutError, OSError) as error:
        return str(error)
    if ended.ok:
        return ""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ended.problem or f"a trial program ended with {ended.code}"


def _remedy(wanted: tuple[str, ...]) -> str:
    if not is_root():
        for path, bad, remedy in _SWITCHES:
            if _read(path) == bad:
                return f"allow user namespaces with: sudo sysctl -w {remedy}"
    if is_root() and not _has_sys_admin():
        return (
            "start this container with: --cap-add SYS_ADMIN --security-opt seccomp=unconfined, "
            "or run as an ordinary user"
        )
    if "bubblewrap" in wanted and bubblewrap.program() is None:
        return "install bubblewrap with: sudo apt-get install bubblewrap"
    return "or run unprotected, on your own code only, with: WARPSMITH_UNSANDBOXED=1"


def _has_sys_admin() -> bool:
    line = next(
        (x for x in _read("/proc/self/status").splitlines() if x.startswith("CapEff:")), "CapEff: 0"
    )
    return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
