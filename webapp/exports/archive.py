"""Zip files whose bytes depend on their contents alone."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from workers.protocol.files import digest_of

SUMS = "SHA256SUMS"
_WHEN = (2000, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644 << 16


def with_sums(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files and a list of their digests, as `sha256sum --check` reads it."""
    sums = "".join(f"{digest_of(files[path])}  {path}\n" for path in sorted(files))
    return {**files, SUMS: sums.encode()}


def pack(files: Mapping[str, bytes], folder: str) -> bytes:
    """A zip of the files in one folder: sorted, one fixed time, one compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(f"{folder}/{path}", _WHEN)
            entry.create_system = _UNIX
            entry.external_attr = _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[path], compresslevel=9)
    return buffer.getvalue()
