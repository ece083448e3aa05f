"""A small reader of ELF files: global symbols, needed libraries, run paths. Nothing is loaded or run.

Bytes come from a linker that worked on hostile input, so every offset is checked and the amount of work is bounded.
64-bit little-endian files only, which is all that our targets produce.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SYMTAB, _DYNAMIC, _DYNSYM = 2, 6, 11
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_MOST_SECTIONS = 70_000
_MOST_SYMBOLS = 500_000
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRY = struct.Struct("<qQ")


class ElfError(ValueError):
    """The bytes are no ELF file that we can read."""


@dataclass(frozen=True)
class Symbols:
    """What a file offers to and wants from others."""

    defined: frozenset[str]
    undefined: frozenset[str]
    needed: tuple[str, ...] = ()
    """Names of shared libraries that the loader will look for."""
    run_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def read_object(content: bytes) -> Symbols:
    """Global symbols of an object file (`.o`)."""
    return _symbols(content, _sections(content), _SYMTAB)


def read_library(content: bytes) -> Symbols:
    """Dynamic symbols, needed libraries and run paths of a shared library."""
    sections = _sections(content)
    symbols = _symbols(content, sections, _DYNSYM)
    needed: list[str] = []
    run_paths: list[str] = []
    for section in sections:
        if section.kind != _DYNAMIC:
            continue
        strings = _linked(content, sections, section)
        for tag, value in _ENTRY.iter_unpack(_whole(_part(content, section), _ENTRY.size)):
            if tag == _NEEDED:
                needed.append(_text(strings, value))
            elif tag in (_RPATH, _RUNPATH):
                run_paths.append(_text(strings, value))
    return Symbols(symbols.defined, symbols.undefined, tuple(needed), tuple(run_paths))


def _sections(content: bytes) -> list[_Section]:
    if len(content) < 64 or content[:6] != b"\x7fELF\x02\x01":
        raise ElfError("not a 64-bit little-endian ELF file")
    start = struct.unpack_from("<Q", content, 40)[0]
    size, count = struct.unpack_from("<HH", content, 58)
    if size != _SECTION.size or start + size > len(content):
        raise ElfError("the section table is out of place")
    if count == 0:
        # Too many for the header: then the first section's size is the number.
        count = _SECTION.unpack_from(content, start)[5]
    if count > _MOST_SECTIONS or start + count * size > len(content):
        raise ElfError("the section table is too large")
    fields = (_SECTION.unpack_from(content, start + k * size) for k in range(count))
    return [_Section(kind=f[1], offset=f[4], size=f[5], link=f[6]) for f in fields]


def _symbols(content: bytes, sections: list[_Section], kind: int) -> Symbols:
    defined: set[str] = set()
    undefined: set[str] = set()
    for section in sections:
        if section.kind != kind:
            continue
        if section.size // _SYMBOL.size > _MOST_SYMBOLS:
            raise ElfError("too many symbols")
        strings = _linked(content, sections, section)
        for name, info, _, where, _, _ in _SYMBOL.iter_unpack(
            _whole(_part(content, section), _SYMBOL.size)
        ):
            if name and info >> 4 in (_GLOBAL, _WEAK, _UNIQUE):
                (defined if where else undefined).add(_text(strings, name))
    return Symbols(frozenset(defined), frozenset(undefined - defined))


def _linked(content: bytes, sections: list[_Section], section: _Section) -> bytes:
    if section.link >= len(sections):
        raise ElfError("a string table is missing")
    return _part(content, sections[section.link])


def _part(content: bytes, section: _Section) -> bytes:
    if section.offset + section.size > len(content):
        raise ElfError("a section lies outside the file")
    return content[section.offset : section.offset + section.size]


def _whole(part: bytes, size: int) -> bytes:
    return part[: len(part) - len(part) % size]


def _text(strings: bytes, offset: int) -> str:
    """A name; a version such as `@GLIBC_2.2.5` is left out."""
    end = strings.find(b"\0", offset)
    if offset >= len(strings) or end < 0:
        raise ElfError("a name lies outside its table")
    return strings[offset:end].decode("utf-8", "replace").partition("@")[0]
