"""Source files as pages show them: numbered, coloured lines with an address each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.safestring import SafeString

from webapp.common.highlight import code_lines


@dataclass(frozen=True)
class LineView:
    """One line; `severity` is set where a compiler spoke about it."""

    number: int
    html: SafeString
    severity: str = ""


@dataclass(frozen=True)
class FileView:
    """One file. Line 14 of model.py has the address #model-py-14."""

    path: str
    anchor: str
    lines: tuple[LineView, ...]
    changed: bool = False
    binary: bool = False


def anchor_of(path: str) -> str:
    """The HTML id of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path)


def line_anchor(place: str) -> str:
    """The HTML id of a place written `model.py:14`; empty where it names no line."""
    path, _, line = place.rpartition(":")
    return f"{anchor_of(path)}-{line}" if path and line.isdecimal() else ""


def file_views(
    files: Mapping[str, bytes],
    changed: Iterable[str] = (),
    severities: Mapping[tuple[str, int], str] | None = None,
) -> list[FileView]:
    """All files, kernels first, then the rest by name."""
    marks = severities or {}
    new = set(changed)
    return [
        _file_view(path, files[path], path in new, marks)
        for path in sorted(files, key=_reading_order)
    ]


def _reading_order(path: str) -> tuple[int, str]:
    """Kernel sources are what people come for; manifests and bindings are read last."""
    if path.startswith("kernels/") and not path.endswith(".json"):
        return (0, path)
    return (2 if path.endswith((".json", ".toml")) else 1, path)


def _file_view(
    path: str, content: bytes, changed: bool, marks: Mapping[tuple[str, int], str]
) -> FileView:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return FileView(path, anchor_of(path), (), changed, binary=True)
    lines = tuple(
        LineView(number, html, marks.get((path, number), ""))
        for number, html in enumerate(code_lines(path, text), start=1)
    )
    return FileView(path, anchor_of(path), lines, changed)
