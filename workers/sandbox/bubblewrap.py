"""Bubblewrap as back end: the view of a profile as its options, and the chain that limits the command.

As an ordinary user bubblewrap makes a user namespace, drops everything and forbids new privileges. As root
a user namespace would map the inner user to the host's root, so none is made: `setpriv` inside becomes the
identity's user and gives up every capability. `prlimit` sets the limits last, so that they bind the
command and not the set-up. Needs bubblewrap 0.8 or newer for `--perms` and `--size`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from workers.sandbox.profiles import Profile, environment_of, uid_of
from workers.sandbox.view import Kind, Step

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_FLAGS = {"RLIMIT_AS": "as", "RLIMIT_NPROC": "nproc", "RLIMIT_CPU": "cpu", "RLIMIT_FSIZE": "fsize"}
_FLAGS |= {"RLIMIT_NOFILE": "nofile", "RLIMIT_CORE": "core"}
_BIND = {
    Kind.SHOW: "--ro-bind",
    Kind.SHARE: "--bind",
    Kind.DEVICE: "--dev-bind",
    Kind.LINK: "--symlink",
}


_BASH = "/bin/bash"
_STARTER_LIVES = 'handle=$0; echo >&$handle || exit 125; exec {handle}>&-; exec "$@"'
"""Ends at once if the starter is dead: bubblewrap forgets to look after it has asked to die with its parent,
so a starter killed in that very moment would leave the sandbox alone in the world."""


def program() -> str | None:
    """Where bubblewrap is, if anywhere."""
    return shutil.which("bwrap", path=SYSTEM_PATH)


def options(
    profile: Profile, steps: Sequence[Step], *, root: bool, filter_handle: int | None
) -> list[str]:
    """All options but the command, to be handed over through `--args`."""
    words = [
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    words += ["--hostname", "sandbox", "--new-session", "--die-with-parent"]
    if root:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        words += ["--cap-add", "CAP_SETPCAP"]
    else:
        words += ["--unshare-user", "--cap-drop", "ALL"]
    for step in steps:
        words += _step(step)
    words.append("--clearenv")
    for name, value in environment_of(profile).items():
        words += ["--setenv", name, value]
    if filter_handle is not None:
        words += ["--seccomp", str(filter_handle)]
    return [*words, "--chdir", "/"]


def _step(step: Step) -> list[str]:
    if step.kind is Kind.FOLDER:
        return ["--perms", "0755", "--dir", step.path]
    if step.kind is Kind.MEMORY:
        return ["--perms", f"{step.mode:o}", "--size", str(step.size), "--tmpfs", step.path]
    if step.kind is Kind.PROC:
        return ["--proc", step.path]
    if step.kind is Kind.SEAL:
        return ["--remount-ro", step.path]
    return [_BIND[step.kind], step.source, step.path]


def command(
    profile: Profile,
    argv: Sequence[str],
    limits: Sequence[tuple[str, int, int]],
    *,
    root: bool,
    life: int,
) -> list[str]:
    """The command behind the programs that take privileges and set limits.

    `life` is the writing end of a pipe that only the starter reads.
    """
    words: list[str] = []
    if Path(_BASH).exists():
        words += [_BASH, "--norc", "-c", _STARTER_LIVES, str(life)]
    if root:
        uid = str(uid_of(profile.identity))
        words += ["/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        words += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]
    if profile.workdir != "/":
        # As the identity itself: bubblewrap as root without its capabilities may not enter its folders.
        words += ["/usr/bin/env", f"--chdir={profile.workdir}", "--"]
    if limits:
        words += [
            "/usr/bin/prlimit",
            *(f"--{_FLAGS[name]}={soft}:{hard}" for name, soft, hard in limits),
            "--",
        ]
    return [*words, *argv]
