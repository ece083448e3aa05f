"""The file system of a sandbox as a list of steps, the same for every back end.

Shown read-only: /usr with the links /bin, /sbin and /lib* that point into it, a few single files of /etc,
the CPU topology in /sys, and what the profile names. Shown beside it: five device nodes, a /proc of
the sandbox's own, and the sized memory folders of the profile. Nothing else exists: no /home, no /root, no
/etc/shadow, no /run.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox.profiles import Profile, SandboxError


class Kind(enum.StrEnum):
    """What a step does at its path."""

    FOLDER = "folder"
    MEMORY = "memory"
    """A tmpfs of `size` bytes with permissions `mode`."""
    SHOW = "show"
    """Bind `source` read-only."""
    SHARE = "share"
    """Bind `source` writable."""
    DEVICE = "device"
    LINK = "link"
    PROC = "proc"
    SEAL = "seal"
    """Make what is mounted at the path read-only."""


@dataclass(frozen=True)
class Step:
    """One step; steps are taken in order."""

    kind: Kind
    path: str
    source: str = ""
    size: int = 0
    mode: int = 0o755


_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/alternatives",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEV_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_TOPOLOGY = "/sys/devices/system/cpu"


def view_of(profile: Profile) -> tuple[Step, ...]:
    """All steps for a profile; raises `SandboxError` where a path of it does not exist."""
    builder = _Builder()
    _system(builder)
    _devices(builder)
    for step in sorted(_wishes(profile), key=lambda s: (len(Path(s.path).parts), s.path)):
        builder.add(step)
    builder.steps.append(Step(Kind.SEAL, "/dev"))
    builder.steps.append(Step(Kind.SEAL, "/"))
    return tuple(builder.steps)


class _Builder:
    """Collects steps, adding the folders that lead to each path and leaving out what is shown already."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._places: dict[str, Kind] = {"/": Kind.FOLDER}

    def add(self, step: Step) -> None:
        owner = self._owner(step.path)
        if step.kind is Kind.SHOW and step.source == step.path and owner is Kind.SHOW:
            return
        if owner in (Kind.FOLDER, Kind.MEMORY):
            for parent in reversed(Path(step.path).parents):
                if str(parent) not in self._places:
                    self.add_folder(str(parent))
        self._places[step.path] = step.kind
        self.steps.append(step)

    def add_folder(self, path: str) -> None:
        self._places[path] = Kind.FOLDER
        self.steps.append(Step(Kind.FOLDER, path))

    def _owner(self, path: str) -> Kind:
        """What lies at the path or at its nearest parent that is a step; folders belong to theirs."""
        places = [path, *map(str, Path(path).parents)]
        kinds = [self._places[place] for place in places if place in self._places]
        return next((kind for kind in kinds if kind is not Kind.FOLDER), Kind.FOLDER)


def _system(builder: _Builder) -> None:
    builder.add(Step(Kind.SHOW, "/usr", "/usr"))
    for name in _LINKS:
        path = Path("/", name)
        if path.is_symlink():
            builder.add(Step(Kind.LINK, str(path), str(path.readlink())))
        elif path.is_dir():
            builder.add(Step(Kind.SHOW, str(path), str(path)))
    for name in (*_ETC, _TOPOLOGY):
        if Path(name).exists():
            builder.add(Step(Kind.SHOW, name, str(Path(name).resolve())))
    builder.add(Step(Kind.PROC, "/proc"))


def _devices(builder: _Builder) -> None:
    builder.add(Step(Kind.MEMORY, "/dev", size=1 << 16))
    for name in _DEVICES:
        builder.add(Step(Kind.DEVICE, f"/dev/{name}", f"/dev/{name}"))
    for name, target in _DEV_LINKS.items():
        builder.add(Step(Kind.LINK, f"/dev/{name}", target))


def _wishes(profile: Profile) -> list[Step]:
    steps = []
    shown = [(str(path), path) for path in profile.readable]
    for name, path in (*shown, *profile.mounted.items()):
        if not path.exists():
            raise SandboxError(f"sandbox {profile.name}: {path} does not exist")
        # Resolved out here, because a link on the way would be followed inside, where it leads nowhere.
        steps.append(Step(Kind.SHOW, name.rstrip("/"), str(path.resolve())))
    for path in profile.writable:
        if not path.is_dir():
            raise SandboxError(f"sandbox {profile.name}: {path} is no folder")
        steps.append(Step(Kind.SHARE, str(path), str(path)))
    for name, size in profile.tmpfs.items():
        steps.append(Step(Kind.MEMORY, name.rstrip("/"), size=size, mode=0o1777))
    return steps
