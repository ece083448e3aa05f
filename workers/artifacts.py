"""Content-addressed storage in a folder: `put` gives a sha256, `get` gives the bytes back, checked.

Digests grant nothing; whoever hands bytes out checks ownership. Named references (`put_ref`) let a
worker leave an answer under a key that the site knows before it knows the digest.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from workers.protocol.codec import ProtocolError, from_json, to_json
from workers.protocol.files import FileManifest, digest_of, manifest_of

_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[a-z0-9][a-z0-9\-]{0,120}")


class ArtifactMissing(KeyError):
    """No such artifact, or its bytes no longer match their digest."""


class ArtifactStore(Protocol):
    """Where larger things lie. Messages carry digests only."""

    def put(self, content: bytes) -> str: ...

    def get(self, digest: str) -> bytes: ...

    def has(self, digest: str) -> bool: ...

    def put_ref(self, key: str, digest: str) -> None: ...

    def get_ref(self, key: str) -> str | None: ...

    def move_ref(self, key: str, digest: str) -> None: ...

    def refs(self, prefix: str) -> list[str]: ...


class FolderStore:
    """An artifact store in a folder; safe for many processes on one file system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, content: bytes) -> str:
        digest = digest_of(content)
        path = self._object(digest)
        if not path.exists():
            _write_atomically(path, content)
        return digest

    def get(self, digest: str) -> bytes:
        try:
            content = self._object(digest).read_bytes()
        except FileNotFoundError:
            raise ArtifactMissing(digest) from None
        if digest_of(content) != digest:
            raise ArtifactMissing(digest)
        return content

    def has(self, digest: str) -> bool:
        return self._object(digest).exists()

    def put_ref(self, key: str, digest: str) -> None:
        """File a digest under a name; the first one stays."""
        path = self._ref(key)
        if not path.exists():
            _write_atomically(path, digest.encode())

    def get_ref(self, key: str) -> str | None:
        try:
            return self._ref(key).read_text()
        except FileNotFoundError:
            return None

    def move_ref(self, key: str, digest: str) -> None:
        """File a digest under a name in place of what stood there."""
        _write_atomically(self._ref(key), digest.encode())

    def refs(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, sorted."""
        folder = self._ref(prefix).parent
        return sorted(path.name for path in folder.glob(f"{prefix}*") if _KEY.fullmatch(path.name))

    def _object(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ArtifactMissing(digest)
        return self.root / "objects" / digest[:2] / digest[2:]

    def _ref(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ProtocolError(f"artifact key {key[:60]!r} is not allowed")
        return self.root / "refs" / key


def put_files(store: ArtifactStore, files: Mapping[str, bytes]) -> str:
    """Store a set of files; the digest of its manifest names the set."""
    manifest = manifest_of(files)
    for content in files.values():
        store.put(content)
    return store.put(to_json(manifest))


def get_files(store: ArtifactStore, digest: str) -> dict[str, bytes]:
    """Read a set of files back; raises `ArtifactMissing` where something is gone."""
    manifest = from_json(FileManifest, store.get(digest))
    return {entry.path: store.get(entry.sha256) for entry in manifest.files}


def _write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
