"""The author's files in a folder that hostile programs write to at the same time.

Everything is done relative to a descriptor of the folder, one step of a path at a time, and no link is ever
followed: whatever the folder holds, nothing outside it is read or written. Files are opened without
waiting, so that a pipe in a file's place holds nobody up. What does not belong to the author is not looked at.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from workers.protocol.codec import ProtocolError
from workers.protocol.files import MAX_FILE_BYTES, check_path, manifest_of
from workers.workspace.layout import AUTHOR_ROOT_FILES, author_may_write

MAX_ENTRIES = 2000
"""Names in the folder that are looked at, at most."""
_KERNELS = "kernels"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Taken:
    """What a look into the folder brought."""

    files: dict[str, bytes]
    """The author's files as they are now."""
    changed: tuple[str, ...] = ()
    """Paths that are new, different or gone since the last look."""
    refused: tuple[str, ...] = ()
    """One sentence per thing that was left out; its last good version stays in `files`."""


@dataclass
class _Look:
    """One walk through the folder."""

    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Path to sentence."""
    entries: int = 0


class _TooMany(Exception):
    """The folder holds more names than are looked at."""


class Mirror:
    """Carries changes between the folder and the author's files, in both directions.

    Has a descriptor of its own, so that a call in a thread that nobody waits for any more cannot meet another
    folder under the same number. After `close` nothing changes any more.
    """

    def __init__(self, folder: int, owner: int | None) -> None:
        self._folder = os.dup(folder)
        self._owner = owner
        self._known: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the folder, once a call that is under way has ended."""
        with self._lock:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    def take(self, current: Mapping[str, bytes]) -> Taken:
        """Apply to `current` what changed in the folder since the last call of `take` or `put`."""
        with self._lock:
            return self._take(current) if self._folder >= 0 else Taken(dict(current))

    def put(self, files: Mapping[str, bytes]) -> tuple[str, ...]:
        """Make the folder hold these files of the author's; a sentence for each that could not be put."""
        with self._lock:
            return self._put(files) if self._folder >= 0 else ()

    def write(self, path: str, content: bytes) -> str:
        """Put a file that is not the author's into the folder; a sentence where it could not be."""
        with self._lock:
            return self._write(path, content) if self._folder >= 0 else ""

    def _take(self, current: Mapping[str, bytes]) -> Taken:
        try:
            look = _Look()
            self._look(look)
        except _TooMany:
            text = f"the folder holds more than {MAX_ENTRIES:,} names in {_KERNELS}/, so none of its changes count; remove some"
            return Taken(dict(current), (), (text,))
        for path in look.refused:
            if path in self._known:
                look.files[path] = self._known[path]
        changed = {p: c for p, c in look.files.items() if self._known.get(p) != c}
        gone = [
            path
            for path in self._known
            if path not in look.files and not _below(path, look.refused)
        ]
        files = {p: c for p, c in {**current, **changed}.items() if p not in gone}
        refused = tuple(look.refused.values())
        try:
            manifest_of(files)
        except ProtocolError as error:
            text = f"{error}, so no change in the folder counts; make the files fewer or smaller"
            return Taken(dict(current), (), (*refused, text))
        kept = {p: c for p, c in self._known.items() if _below(p, look.refused)}
        self._known = {**kept, **look.files}
        return Taken(files, tuple(sorted({*changed, *gone})), refused)

    def _put(self, files: Mapping[str, bytes]) -> tuple[str, ...]:
        for path in [path for path in self._known if path not in files]:
            with contextlib.suppress(OSError):
                self._remove(path)
            del self._known[path]
        problems = []
        for path, content in files.items():
            if self._known.get(path) == content:
                continue
            if problem := self._write(path, content):
                problems.append(problem)
            else:
                self._known[path] = content
        return tuple(problems)

    def _write(self, path: str, content: bytes) -> str:
        try:
            write_below(self._folder, path, content, self._owner)
        except OSError as error:
            return f"{path} could not be put into the folder: {error.strerror}"
        return ""

    def _remove(self, path: str) -> None:
        parent, name = _parts(path)
        with _opened(self._folder, parent) as handle:
            os.unlink(name, dir_fd=handle)

    def _look(self, look: _Look) -> None:
        for name in AUTHOR_ROOT_FILES:
            self._read(self._folder, name, name, look)
        self._look_below(self._folder, _KERNELS, _KERNELS, look)

    def _look_below(self, parent: int, name: str, path: str, look: _Look) -> None:
        # A link in its place, a file, or a folder that may not be opened.
        otherwise = f"{path} is no folder of files any more; remove it and write anew"
        handle = self._open(parent, name, path, _DIRECTORY, otherwise, look)
        if handle is None:
            return
        try:
            for entry in self._entries(handle, look):
                below = f"{path}/{entry}"
                if self._is_folder(handle, entry):
                    self._look_below(handle, entry, below, look)
                elif author_may_write(below):
                    self._read(handle, entry, below, look)
        finally:
            os.close(handle)

    def _open(
        self, parent: int, name: str, path: str, flags: int, otherwise: str, look: _Look
    ) -> int | None:
        """Open what lies there; None where nothing does, or where it is refused (`otherwise` says why)."""
        try:
            check_path(path)
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            return None
        except ProtocolError as error:
            look.refused[path] = str(error)
        except OSError:
            look.refused[path] = otherwise
        return None

    def _entries(self, handle: int, look: _Look) -> list[str]:
        names = []
        with os.scandir(handle) as entries:
            for entry in entries:
                look.entries += 1
                if look.entries > MAX_ENTRIES:
                    raise _TooMany
                names.append(entry.name)
        return sorted(names)

    def _is_folder(self, handle: int, name: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def _read(self, parent: int, name: str, path: str, look: _Look) -> None:
        otherwise = f"{path} is a link or cannot be read, so it was left out; write a plain file"
        handle = self._open(parent, name, path, _FILE, otherwise, look)
        if handle is None:
            return
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                look.refused[path] = f"{path} is no plain file, so it was left out; remove it"
            elif status.st_size > MAX_FILE_BYTES:
                look.refused[path] = (
                    f"{path} has {status.st_size:,} bytes, so it was left out; "
                    f"{MAX_FILE_BYTES:,} are allowed"
                )
            else:
                look.files[path] = _content(handle, MAX_FILE_BYTES)
        finally:
            os.close(handle)


def write_below(folder: int, path: str, content: bytes, owner: int | None) -> None:
    """Put a file below an open folder, in place of whatever lies there; raises `OSError`."""
    parent, name = _parts(path)
    with _opened(folder, parent, owner) as handle:
        passing = f".new-{secrets.token_hex(6)}"
        file = os.open(passing, _NEW, 0o644, dir_fd=handle)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            if owner is not None:
                os.fchown(file, owner, owner)
            os.rename(passing, name, src_dir_fd=handle, dst_dir_fd=handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(passing, dir_fd=handle)
            raise
        finally:
            os.close(file)


@contextlib.contextmanager
def _opened(folder: int, parents: tuple[str, ...], owner: int | None = None) -> Iterator[int]:
    """A folder below another, made where it is missing; no link is followed."""
    handle = os.dup(folder)
    try:
        for name in parents:
            try:
                os.mkdir(name, 0o755, dir_fd=handle)
                if owner is not None:
                    os.chown(name, owner, owner, dir_fd=handle, follow_symlinks=False)
            except FileExistsError:
                pass
            below = os.open(name, _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _parts(path: str) -> tuple[tuple[str, ...], str]:
    *parents, name = PurePosixPath(path).parts
    return tuple(parents), name


def _below(path: str, refused: Mapping[str, str]) -> bool:
    """Whether a path, or a folder that it lies in, was refused."""
    return any(path == item or path.startswith(f"{item}/") for item in refused)


def _content(handle: int, most: int) -> bytes:
    parts = []
    left = most
    while left > 0 and (part := os.read(handle, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
