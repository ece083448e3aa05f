"""The author's files in memory, with the rules of `workers.workspace.layout`."""

from __future__ import annotations

from collections.abc import Mapping

from agent.errors import Refusal
from workers.protocol.codec import ProtocolError
from workers.protocol.files import MAX_FILE_BYTES, MAX_FILES, check_path, manifest_of
from workers.workspace.desk import TEMPLATE
from workers.workspace.layout import PROBLEM_FILES, check_author_path, snapshot_files

SKILL = "SKILL.md"

_MAX_OUTPUT_BYTES = 16 << 20
"""Of long outputs of commands that are kept for reading; the oldest go first."""


def template_files() -> dict[str, bytes]:
    """The read-only files that every workspace starts with, such as `SKILL.md`."""
    return {
        str(path.relative_to(TEMPLATE)): path.read_bytes()
        for path in sorted(TEMPLATE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


class Workspace:
    """Problem and template files are read only; the author's files may change."""

    def __init__(self, problem: Mapping[str, bytes], author: Mapping[str, bytes]) -> None:
        self._fixed = template_files() | {p: problem[p] for p in PROBLEM_FILES if p in problem}
        self._author = snapshot_files(author)
        self._outputs: dict[str, bytes] = {}
        self.problem = {p: problem[p] for p in PROBLEM_FILES if p in problem}
        """What is to be optimised."""

    @property
    def author_files(self) -> dict[str, bytes]:
        """The snapshot: what the judge gets."""
        return dict(self._author)

    @property
    def digest(self) -> str:
        """Digest of the snapshot; empty while the author has written nothing."""
        return manifest_of(self._author).digest if self._author else ""

    def paths(self) -> list[str]:
        """All files but the outputs of commands, sorted."""
        return sorted({*self._fixed, *self._author})

    def read(self, path: str) -> str:
        """The text of a file; raises `Refusal` where there is none."""
        content = {**self._outputs, **self._fixed, **self._author}.get(path)
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

    def replace(self, files: Mapping[str, bytes]) -> None:
        """Take over all of the author's files from the shell's folder, whose limits are the same."""
        self._author = dict(files)

    def keep_output(self, path: str, content: bytes) -> None:
        """Keep what a command printed, for `read`; it is no part of a snapshot."""
        self._outputs[path] = content
        while sum(map(len, self._outputs.values())) > max(_MAX_OUTPUT_BYTES, len(content)):
            del self._outputs[next(iter(self._outputs))]

    def _refuse_strange(self, path: str) -> None:
        try:
            check_path(path)
        except ProtocolError as error:
            raise Refusal(f"{error}; paths are relative to the workspace") from error
