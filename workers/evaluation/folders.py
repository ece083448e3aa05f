"""Reading a workspace from a folder on disk."""

from __future__ import annotations

from pathlib import Path

from workers.protocol.codec import ProtocolError
from workers.protocol.files import MAX_FILE_BYTES, check_path
from workers.workspace.layout import AUTHOR_ROOT_FILES, PROBLEM_FILES, author_may_write


class FolderError(ValueError):
    """The folder cannot be used; the text says what to change and is safe to show."""


def read_folder(folder: Path) -> dict[str, bytes]:
    """The problem's and the author's files of a workspace folder; everything else is left alone."""
    if not folder.is_dir():
        raise FolderError(f"{folder} is not a folder")
    files: dict[str, bytes] = {}
    for path in _candidates(folder):
        name = path.relative_to(folder).as_posix()
        if name not in PROBLEM_FILES and not author_may_write(name):
            continue
        if path.is_symlink() or not path.is_file():
            continue
        try:
            check_path(name)
        except ProtocolError as error:
            raise FolderError(str(error)) from error
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FolderError(f"{name} is larger than {MAX_FILE_BYTES:,} bytes")
        files[name] = path.read_bytes()
    return files


def _candidates(folder: Path) -> list[Path]:
    """Only where such files may lie: a person's folder may hold anything else, and much of it."""
    kernels = folder / "kernels"
    below = [] if kernels.is_symlink() else sorted(kernels.rglob("*"))
    return [folder / name for name in (*PROBLEM_FILES, *AUTHOR_ROOT_FILES)] + below
