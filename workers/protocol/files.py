"""A set of small text files under one digest: problems and snapshots travel as this."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from workers.protocol.codec import ProtocolError, to_json

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 200
MAX_TOTAL_BYTES = 8 << 20

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


def check_path(path: str) -> str:
    """Return a relative path unchanged, or raise `ProtocolError` if it could leave its folder."""
    parts = path.split("/")
    if len(path) > 200 or not all(_PART.fullmatch(part) for part in parts):
        raise ProtocolError(
            f"file name {path[:80]!r} is not allowed: use letters, digits, '_', '-', '.' and '/'"
        )
    return path


def digest_of(content: bytes) -> str:
    """The sha256 of some bytes in hexadecimal; every digest of the system is one of these."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class FileEntry:
    """One file: its path inside the set and the sha256 of its bytes."""

    path: str
    sha256: str

    def __post_init__(self) -> None:
        check_path(self.path)
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ProtocolError(f"{self.path}: not a sha256")


@dataclass(frozen=True)
class FileManifest:
    """The sorted list of files of a set. Its canonical JSON has the digest that names the set."""

    files: tuple[FileEntry, ...]
    version: int = 1

    def __post_init__(self) -> None:
        paths = [entry.path for entry in self.files]
        if paths != sorted(set(paths)):
            raise ProtocolError("the files of a manifest must be sorted and unique")
        if len(paths) > MAX_FILES:
            raise ProtocolError(f"more than {MAX_FILES} files")

    @property
    def digest(self) -> str:
        return digest_of(to_json(self))


def manifest_of(files: Mapping[str, bytes]) -> FileManifest:
    """Describe a set of files given as path -> bytes; raises `ProtocolError` when it is too large."""
    for path, content in files.items():
        if len(content) > MAX_FILE_BYTES:
            raise ProtocolError(
                f"{path} has {len(content):,} bytes; {MAX_FILE_BYTES:,} are allowed"
            )
    total = sum(len(content) for content in files.values())
    if total > MAX_TOTAL_BYTES:
        raise ProtocolError(f"the files have {total:,} bytes; {MAX_TOTAL_BYTES:,} are allowed")
    return FileManifest(
        files=tuple(FileEntry(path=p, sha256=digest_of(files[p])) for p in sorted(files))
    )
