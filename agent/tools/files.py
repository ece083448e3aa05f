"""Tools on the files of the workspace: read, write, edit, glob, grep."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from agent.errors import Refusal
from agent.tools.base import Bench, Observation, Tool

_MAX_HITS = 200


@dataclass(frozen=True)
class ReadForm:
    """Arguments of `read`."""

    path: str
    first_line: int = 1
    lines: int = 2000


class Read(Tool[ReadForm]):
    """Shows a file with line numbers."""

    name = "read"
    purpose = "Show a file of the workspace with line numbers."
    form = ReadForm

    async def run(self, bench: Bench, arguments: ReadForm) -> Observation:
        """The asked lines; raises `Refusal` where there is no such file."""
        lines = bench.workspace.read(arguments.path).splitlines()
        if arguments.first_line < 1 or arguments.lines < 1:
            raise Refusal("first_line and lines must be at least 1")
        start = arguments.first_line - 1
        shown = lines[start : start + arguments.lines]
        text = "\n".join(f"{start + i:5d}  {line}" for i, line in enumerate(shown, 1))
        return Observation(text or "(no lines)", f"{arguments.path}: {len(shown)} lines")


@dataclass(frozen=True)
class WriteForm:
    """Arguments of `write`."""

    path: str
    content: str


class Write(Tool[WriteForm]):
    """Puts a whole file in place."""

    name = "write"
    purpose = "Write a whole file: model_new.py, kernels/ops.json or a source in kernels/."
    form = WriteForm

    async def run(self, bench: Bench, arguments: WriteForm) -> Observation:
        """Write; raises `Refusal` for files that do not belong to the author."""
        bench.workspace.write(arguments.path, arguments.content)
        done = f"wrote {arguments.path} ({len(arguments.content.splitlines())} lines)"
        return Observation(done, done)


@dataclass(frozen=True)
class EditForm:
    """Arguments of `edit`."""

    path: str
    old: str
    new: str
    all: bool = False
    """Replace every place; otherwise there must be exactly one."""


class Edit(Tool[EditForm]):
    """Replaces a piece of a file."""

    name = "edit"
    purpose = "Replace an exact piece of a file; the piece must occur once unless `all` is true."
    form = EditForm

    async def run(self, bench: Bench, arguments: EditForm) -> Observation:
        """Replace; raises `Refusal` where the piece is missing or not unique."""
        text, count = _replaced(bench.workspace.read(arguments.path), arguments)
        bench.workspace.write(arguments.path, text)
        done = f"edited {arguments.path} in {_places(count)}"
        return Observation(done, done)


@dataclass(frozen=True)
class Change:
    """One change of `multi_edit`."""

    old: str
    new: str
    all: bool = False
    """Replace every place; otherwise there must be exactly one."""


@dataclass(frozen=True)
class MultiEditForm:
    """Arguments of `multi_edit`."""

    path: str
    edits: tuple[Change, ...]
    """Made in this order, each on what the one before left; all of them or none."""


class MultiEdit(Tool[MultiEditForm]):
    """Replaces several pieces of a file at once."""

    name = "multi_edit"
    purpose = "Replace several exact pieces of one file, in order; all of them or none."
    form = MultiEditForm

    async def run(self, bench: Bench, arguments: MultiEditForm) -> Observation:
        """Replace; raises `Refusal` where one piece is missing or not unique, and changes nothing then."""
        text = bench.workspace.read(arguments.path)
        if not arguments.edits:
            raise Refusal("`edits` is empty; give at least one change with `old` and `new`")
        total = 0
        for number, change in enumerate(arguments.edits, 1):
            try:
                text, count = _replaced(
                    text, EditForm(arguments.path, change.old, change.new, change.all)
                )
            except Refusal as refusal:
                raise Refusal(f"edit {number}: {refusal}; nothing was changed") from refusal
            total += count
        bench.workspace.write(arguments.path, text)
        done = f"edited {arguments.path} in {_places(total)}"
        return Observation(done, done)


def _places(count: int) -> str:
    return f"{count} place{'' if count == 1 else 's'}"


def _replaced(text: str, edit: EditForm) -> tuple[str, int]:
    """The text after an edit and the number of places; raises `Refusal`."""
    if not edit.old:
        raise Refusal("`old` is empty; use `write` for a new file")
    count = text.count(edit.old)
    if count == 0:
        raise Refusal(f"{edit.path} does not hold that text; read it and copy it exactly")
    if count > 1 and not edit.all:
        raise Refusal(f"{edit.path} holds that text {count} times; give more of it or set `all`")
    return text.replace(edit.old, edit.new), count


@dataclass(frozen=True)
class GlobForm:
    """Arguments of `glob`."""

    pattern: str = "*"


class Glob(Tool[GlobForm]):
    """Lists files."""

    name = "glob"
    purpose = "List the files whose path matches a pattern such as kernels/*.cpp."
    form = GlobForm

    async def run(self, bench: Bench, arguments: GlobForm) -> Observation:
        """The matching paths; `*` also matches `/`."""
        found = [p for p in bench.workspace.paths() if fnmatch.fnmatchcase(p, arguments.pattern)]
        return Observation("\n".join(found) or "(no file matches)", f"{len(found)} files")


@dataclass(frozen=True)
class GrepForm:
    """Arguments of `grep`."""

    pattern: str
    paths: str = "*"


class Grep(Tool[GrepForm]):
    """Searches in files."""

    name = "grep"
    purpose = "Search the workspace for a regular expression, line by line."
    form = GrepForm

    async def run(self, bench: Bench, arguments: GrepForm) -> Observation:
        """Lines that match, as path:line: text; raises `Refusal` for a bad expression."""
        if len(arguments.pattern) > 200:
            raise Refusal("the expression is longer than 200 characters")
        try:
            expression = re.compile(arguments.pattern)
        except re.error as error:
            raise Refusal(f"not a regular expression: {error}") from error
        hits: list[str] = []
        for path in bench.workspace.paths():
            if fnmatch.fnmatchcase(path, arguments.paths):
                lines = bench.workspace.read(path).splitlines()
                # Long lines are cut before the search, so that no expression can run for hours.
                found = (
                    (i, line[:500])
                    for i, line in enumerate(lines, 1)
                    if expression.search(line[:500])
                )
                hits.extend(f"{path}:{i}: {line}" for i, line in found)
        shown = hits[:_MAX_HITS]
        more = [f"({len(hits) - len(shown)} more)"] if len(hits) > len(shown) else []
        return Observation("\n".join(shown + more) or "(no line matches)", f"{len(hits)} lines")
