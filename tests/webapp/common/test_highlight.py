"""Source as HTML: nothing lost, nothing unescaped, lines stay lines."""

from __future__ import annotations

import html
import re

import pytest

from webapp.common.highlight import code_lines

CPP = '#include <a.h>\n/* two\n   lines */\nint x = 0x1F; // <b>\nconst char* s = "</span>";\n'
PYTHON = '"""doc\n<i>\n"""\n@wraps\ndef f(x):\n    return x + 1.5e-3  # \'no\'\n'


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.cpp", CPP),
        ("a.py", PYTHON),
        ("a.json", '{"a": [true, 1.5, "<x>"]}\n'),
        ("a.toml", '# c\ntitle = "<t>"\nthreads = 2\n'),
        ("a.txt", "<plain> & simple\n"),
        ("a.py", 'broken = "unfinished\n'),
        ("a.cpp", "/* never closed\n"),
        ("a.py", ""),
    ],
)
def test_the_text_comes_back_whole_and_line_by_line(path: str, text: str) -> None:
    lines = code_lines(path, text)
    plain = [html.unescape(re.sub(r"</?span[^>]*>", "", line)) for line in lines]
    assert plain == text.removesuffix("\n").split("\n")


def test_each_line_closes_what_it_opens() -> None:
    for line in [*code_lines("a.cpp", CPP), *code_lines("a.py", PYTHON)]:
        assert line.count("<span") == line.count("</span>")


def test_tokens_are_told_apart() -> None:
    lines = code_lines("a.cpp", CPP)
    assert '<span class="tok-m">#include' in lines[0]
    assert lines[2] == '<span class="tok-c">   lines */</span>'
    assert '<span class="tok-k">int</span>' in lines[3]
    assert '<span class="tok-n">0x1F</span>' in lines[3]
    assert "&lt;/span&gt;" in lines[4]
