"""The author's files in memory, with the rules of `workers.workspace.layout`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.errors import Refusal
from workers.protocol.codec import ProtocolError
from workers.protocol.files import MAX_FILE_BYTES, MAX_FILES, check_path, manifest_of
from workers.workspace.layout import PROBLEM_FILES, check_author_path, snapshot_files

SKILL = "SKILL.md"

_TEMPLATE = Path(__file__).resolve().parents[1] / "workers" / "workspace" / "template"


def template_files() -> dict[str, bytes]:
    """The read-only files that every workspace starts with, such as `SKILL.md`."""
    return {
        str(path.relative_to(_TEMPLATE)): path.read_bytes()
        for path in sorted(_TEMPLATE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


class Workspace:
    """Problem and template files are read only; the author's files may change."""

    def __init__(self, problem: Mapping[str, bytes], author: Mapping[str, bytes]) -> None:
        self._fixed = template_files() | {p: problem[p] for p in PROBLEM_FILES if p in problem}
        self._author = snapshot_files(author)

    @property
    def author_files(self) -> dict[str, bytes]:
        """The snapshot: what the judge gets."""
        return dict(self._author)

    @property
    def digest(self) -> str:
        """Digest of the snapshot; empty while the author has written nothing."""
        return manifest_of(self._author).digest if self._author else ""

    def paths(self) -> list[str]:
        """All files, sorted."""
        return sorted({*self._fixed, *self._author})

    def read(self, path: str) -> str:
        """The text of a file; raises `Refusal` where there is none."""
        content = self._author.get(path, self._fixed.get(path))
        if content is None:
            self._refuse_strange(path)
            raise Refusal(f"{path} does not exist; there are {', '.join(self.paths()[:30])}")
        return content.decode(errors="replace")

    def write(self, path: str, text: str) -> None:
        """Put a file of the author's in place; raises `Refusal` where the layout forbids it."""
        content = text.encode()
        if path in self._fixed:
            raise Refusal(f"{path} is read only; write model_new.py and files in kernels/")
        try:
            check_author_path(path)
        except ProtocolError as error:
            raise Refusal(str(error)) from error
        if len(content) > MAX_FILE_BYTES:
            raise Refusal(
                f"{path} would have {len(content):,} bytes; {MAX_FILE_BYTES:,} are allowed"
            )
        try:
            manifest_of({**self._author, path: content})
        except ProtocolError as error:
            raise Refusal(f"{error}; at most {MAX_FILES} files fit in a workspace") from error
        self._author[path] = content

    def _refuse_strange(self, path: str) -> None:
        try:
            check_path(path)
        except ProtocolError as error:
            raise Refusal(f"{error}; paths are relative to the workspace") from error
