"""Compilers' and linkers' words become diagnostics, and none is lost."""

from __future__ import annotations

import pytest

from workers.evaluation.build_diagnostics import MOST, parse
from workers.protocol.diagnostics import Severity

GCC = """\
In file included from kernels/a.cpp:2:
kernels/../kernels/a.h: In function 'float f(float)':
kernels/../kernels/a.h:3:10: warning: unused variable 'x' [-Wunused-variable]
    3 |   float  x = 1;
      |          ^
kernels/a.cpp: In instantiation of 'struct F<3>':
kernels/a.cpp:9:20:   required from here
kernels/a.cpp:5:7: error: static assertion failed: too deep
kernels/a.cpp:6:1: note: declared here
cc1plus: fatal error: no include path in which to search for stdint.h
compilation terminated.
"""
CLANG = """\
kernels/a.cpp:4:3: error: use of undeclared identifier 'y'
  y = 1;
  ^
1 error generated.
"""
ASSEMBLER = """\
{standard input}: Assembler messages:
{standard input}:12: Error: no such instruction: `nonsense'
"""
LINKER = """\
/usr/bin/ld: kernels/a.cpp.o: in function `ws_f':
a.cpp:(.text+0x5): undefined reference to `lost(int)'
/usr/bin/ld: generated/binding.cpp.o:binding.cpp:(.text+0x9): undefined reference to `ws_g'
/usr/bin/ld: kernels/b.cpp.o:(.bss+0x0): multiple definition of `twice'; kernels/a.cpp.o:(.bss+0x0): first defined here
/usr/bin/ld: cannot find -lnothing: No such file or directory
collect2: error: ld returned 1 exit status
"""


def _short(log: str) -> list[tuple[str, str, str, int | None]]:
    return [(d.tool, d.severity.value, d.file, d.line) for d in parse(log, "g++")]


def test_gcc_is_read():
    assert _short(GCC) == [
        ("g++", "warning", "kernels/a.h", 3),
        ("g++", "note", "kernels/a.cpp", 9),
        ("g++", "error", "kernels/a.cpp", 5),
        ("g++", "note", "kernels/a.cpp", 6),
        ("g++", "error", "", None),
    ]
    warning = parse(GCC, "g++")[0]
    assert (warning.code, warning.column, warning.message) == (
        "-Wunused-variable",
        10,
        "unused variable 'x'",
    )


def test_clang_is_read():
    assert _short(CLANG) == [("g++", "error", "kernels/a.cpp", 4)]


def test_the_assembler_s_line_numbers_are_not_the_author_s():
    assert _short(ASSEMBLER) == [("as", "error", "", None)]
    assert "nonsense" in parse(ASSEMBLER, "g++")[0].message


def test_the_linker_is_read_with_the_source_that_it_speaks_of():
    assert _short(LINKER) == [
        ("ld", "error", "kernels/a.cpp", None),
        ("ld", "error", "generated/binding.cpp", None),
        ("ld", "error", "kernels/b.cpp", None),
        ("ld", "error", "", None),
        ("ld", "error", "", None),
    ]


@pytest.mark.parametrize("count", [MOST, MOST + 1, 10 * MOST])
def test_what_is_left_out_is_counted(count):
    found = parse("kernels/a.cpp:1:1: error: no\n" * count, "g++")
    assert len(found) == min(count, MOST + 1)
    if count > MOST:
        assert found[-1].severity is Severity.NOTE
        assert str(count - MOST) in found[-1].message
