"""What compilers and linkers print, as `Diagnostic`s.

The text form is read, because g++ 12 to 15 and clang++ all write the same one. Every error, warning and
note becomes a diagnostic; source excerpts stay in the log. Tools run in /work, so names of files are those
of the workspace already.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from workers.protocol.diagnostics import Diagnostic, Severity

MOST = 100
_LONGEST = 2000
_SEVERITY = {
    "note": Severity.NOTE,
    "remark": Severity.NOTE,
    "warning": Severity.WARNING,
    "Warning": Severity.WARNING,
}
_LEVELS = "fatal error|internal compiler error|sorry, unimplemented|error|warning|remark|note|Error|Warning"
_PLACED = re.compile(
    rf"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<level>{_LEVELS}): (?P<text>.*)"
)
_REQUIRED = re.compile(
    r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? +(?P<text>(?:recursively )?required (?:from|by).*)"
)
_UNPLACED = re.compile(
    rf"(?P<tool>cc1plus|cc1|[\w.+-]*(?:g\+\+|clang\+\+|c\+\+)|clang|as): (?P<level>{_LEVELS}): (?P<text>.*)"
)
_OPTION = re.compile(r"(?P<text>.*\S) \[(?P<code>-[WfD][^\]\s]*)\]$")
_LD = re.compile(r"(?:/\S*/)?(?:[\w.-]*-)?ld(?:\.\w+)?: (?P<text>.*)")
_COLLECT = re.compile(r"collect2: (?:fatal )?error: (?P<text>.*)")
_IN_FUNCTION = re.compile(r"(?P<object>\S+\.o): in function [`'](?P<function>.*)':$")
_LD_MESSAGE = re.compile(
    r"(?:(?P<object>\S+?):(?:\S*:)?(?:\([^)]*\))?:? )?"
    r"(?P<text>(?:undefined reference to|multiple definition of|cannot find|final link failed|.*relocation).*)"
)  # fmt: skip


def parse(log: str, compiler: str) -> tuple[Diagnostic, ...]:
    """All diagnostics of one tool's output, in order; the last says how many more there are."""
    found: list[Diagnostic] = []
    dropped = 0
    for diagnostic in _all(log.splitlines(), compiler):
        if len(found) < MOST:
            found.append(diagnostic)
        else:
            dropped += 1
    if dropped:
        text = f"{dropped} more messages are in the build log"
        found.append(Diagnostic(tool=compiler, severity=Severity.NOTE, message=text))
    return tuple(found)


def _all(lines: Iterable[str], compiler: str) -> Iterator[Diagnostic]:
    place = ""
    for line in lines:
        if (match := _PLACED.match(line)) or (match := _REQUIRED.match(line)):
            yield _placed(match, compiler)
        elif match := _UNPLACED.match(line):
            yield _diagnostic(compiler, match["level"], match["text"])
        elif match := _COLLECT.match(line):
            yield _diagnostic("ld", "error", match["text"])
        else:
            said = _LD.match(line)
            text = said["text"] if said else line
            if match := _IN_FUNCTION.match(text):
                place = _source_of(match["object"])
            elif match := _LD_MESSAGE.match(text):
                own = match["object"] or ""
                file = _source_of(own) if own.endswith(".o") else place if own else ""
                yield Diagnostic("ld", Severity.ERROR, _short(match["text"]), file=file)
            elif said:
                level = "warning" if text.startswith("warning: ") else "error"
                yield _diagnostic("ld", level, text.removeprefix("warning: "))


def _placed(match: re.Match[str], compiler: str) -> Diagnostic:
    groups = match.groupdict()
    level = groups.get("level") or "note"
    file = _workspace_path(groups["file"])
    # With -pipe the assembler reads what the compiler wrote, so its line numbers mean nothing to the author.
    from_assembler = groups["file"] == "{standard input}"
    return _diagnostic(
        "as" if from_assembler else compiler,
        level,
        groups["text"],
        file="" if from_assembler else file,
        line=None if from_assembler else int(groups["line"]),
        column=int(groups["column"]) if groups.get("column") else None,
    )


def _diagnostic(
    tool: str,
    level: str,
    text: str,
    file: str = "",
    line: int | None = None,
    column: int | None = None,
) -> Diagnostic:
    code = ""
    if match := _OPTION.match(text):
        text, code = match["text"], match["code"]
    severity = _SEVERITY.get(level, Severity.ERROR)
    return Diagnostic(tool, severity, _short(text), file=file, line=line, column=column, code=code)


def _workspace_path(name: str) -> str:
    return posixpath.normpath(name.removeprefix("/work/"))


def _source_of(name: str) -> str:
    """Objects are linked under the name of their source and `.o`."""
    return _workspace_path(name).removesuffix(".o")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
