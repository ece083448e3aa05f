"""Colours for source code: a few token classes per language, one safe HTML string per line.

This is for reading only. A file in a language that is not listed is shown without colours; nothing
is ever dropped from the text, and every character that HTML could misread is escaped.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

_NUMBER = r"(?P<n>\b(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)[fFuUlL]*\b)"

_PYTHON_WORDS = (
    "and as assert async await break class continue def del elif else except False finally for from "
    "global if import in is lambda None nonlocal not or pass raise return True try while with yield"
)
_CPP_WORDS = (
    "alignas auto bool break case char class const constexpr continue default delete do double else "
    "enum explicit extern false float for if inline int int32_t int64_t long namespace new noexcept "
    "nullptr private public return short signed sizeof size_t static static_cast struct switch "
    "template this true typedef typename uint32_t uint64_t uint8_t unsigned using void volatile "
    "while __global__ __device__ __host__ __shared__ __restrict__ __forceinline__"
)


def _words(words: str) -> str:
    return r"(?P<k>\b(?:" + "|".join(words.split()) + r")\b)"


_PYTHON = re.compile(
    r"(?P<s>[rbfRBF]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<c>\#[^\n]*)|(?P<m>^[ \t]*@[\w.]+)|" + _words(_PYTHON_WORDS) + "|" + _NUMBER,
    re.DOTALL | re.MULTILINE,
)
_CPP = re.compile(
    r"(?P<c>//[^\n]*|/\*.*?\*/)|(?P<s>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<m>^[ \t]*\#[^\n]*)|" + _words(_CPP_WORDS) + "|" + _NUMBER,
    re.DOTALL | re.MULTILINE,
)
_JSON = re.compile(
    r"(?P<m>\"(?:\\.|[^\"\\\n])*\"(?=\s*:))|(?P<s>\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<k>\b(?:true|false|null)\b)|" + _NUMBER
)
_TOML = re.compile(
    r"(?P<c>\#[^\n]*)|(?P<m>^[ \t]*\[[^\n]*\]|^[ \t]*[\w.\-]+(?=[ \t]*=))"
    r"|(?P<s>\"(?:\\.|[^\"\\\n])*\")|(?P<k>\b(?:true|false)\b)|" + _NUMBER,
    re.MULTILINE,
)

_BY_SUFFIX = {
    ".py": _PYTHON,
    ".cpp": _CPP,
    ".h": _CPP,
    ".hpp": _CPP,
    ".inc": _CPP,
    ".cu": _CPP,
    ".cuh": _CPP,
    ".json": _JSON,
    ".toml": _TOML,
}


def code_lines(path: str, text: str) -> list[SafeString]:
    """The lines of a file as HTML, coloured by the language of its name."""
    pattern = _BY_SUFFIX.get(PurePosixPath(path).suffix)
    source = text.replace("\r\n", "\n").removesuffix("\n")
    if pattern is None:
        return [escape(line) for line in source.split("\n")]
    pieces: list[str] = []
    end = 0
    for match in pattern.finditer(source):
        pieces.append(escape(source[end : match.start()]))
        pieces.append(_token(match.lastgroup or "", match.group()))
        end = match.end()
    pieces.append(escape(source[end:]))
    # Escaped above, piece by piece; the only markup is the span of `_token`.
    return [mark_safe(line) for line in "".join(pieces).split("\n")]  # noqa: S308


def _token(kind: str, text: str) -> str:
    """A coloured token; a token of several lines is closed and opened again at each line's end."""
    parts = (f'<span class="tok-{kind}">{escape(part)}</span>' for part in text.split("\n"))
    return "\n".join(parts)
