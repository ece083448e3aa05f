"""Uploads that can be refused before a judge runs, each with a part of the sentence that is due."""

from __future__ import annotations

import gzip

from tests.webapp.conftest import MODEL

REFUSALS = {
    "nothing": ({}, "model.py is missing"),
    "empty": ({"model.py": b"  \n"}, "model.py is missing"),
    "other file": ({"model.py": MODEL, "setup.py": b""}, "setup.py cannot be uploaded"),
    "syntax": ({"model.py": b"class Model(:\n"}, "model.py line 1"),
    "no Model": ({"model.py": b"x = 1\n"}, "no class Model"),
    "nested Model": ({"model.py": b"def f():\n    class Model: pass\n"}, "no class Model"),
    "no forward": (
        {"model.py": MODEL.replace(b"def forward", b"def backward")},
        "no method forward",
    ),
    "no get_inputs": ({"model.py": MODEL.replace(b"get_inputs", b"inputs")}, "get_inputs()"),
    "no get_init_inputs": (
        {"model.py": MODEL.replace(b"get_init_inputs", b"init")},
        "get_init_inputs()",
    ),
    "latin-1": ({"model.py": MODEL + "# caf\xe9".encode("latin-1")}, "not UTF-8 text (line 17)"),
    "binary": ({"model.py": MODEL + b"\0"}, "NUL"),
    "too large": ({"model.py": MODEL + b"#" * (256 << 10)}, "262,144 are allowed"),
    "deep": ({"model.py": MODEL + b"x = " + b"(" * 5000 + b")" * 5000}, "model.py"),
    "toml syntax": ({"model.py": MODEL, "problem.toml": b"threads = "}, "problem.toml"),
    "toml field": ({"model.py": MODEL, "problem.toml": b"theads = 2\n"}, "unknown field 'theads'"),
    "toml value": ({"model.py": MODEL, "problem.toml": b"threads = 0\n"}, "between 1 and 256"),
    "target": ({"model.py": MODEL, "problem.toml": b'target = "cuda"\n'}, "no cuda worker"),
    "not Python": ({"model.py": b"<html>This is no model</html>\n"}, "model.py line 1"),
    "a number without end": ({"model.py": MODEL + b"x = " + b"9" * 9999}, "model.py line 17"),
    "a chain without end": ({"model.py": MODEL + b"x = a" + b".b" * 99_999}, "nested too deeply"),
    "a class without end": (
        {"model.py": MODEL.replace(b"torch.nn.Module", b"a" + b".b" * 5000)},
        "nested too deeply",
    ),
    "a sum without end": (
        {"model.py": MODEL + b"x = " + b"1+" * 99_999 + b"1"},
        "nested too deeply",
    ),
    "signs without end": (
        {"model.py": MODEL + b"x = " + b"-" * 99_999 + b"1"},
        "nested too deeply",
    ),
    "an unknown encoding": ({"model.py": b"# coding: klingon\n" + MODEL}, "unknown encoding"),
    "UTF-16": ({"model.py": MODEL.decode().encode("utf-16")}, "not UTF-8"),
    "an archive": ({"model.py": gzip.compress(MODEL)}, "not UTF-8"),
    "a control character": ({"model.py": MODEL + b"\x1a"}, "model.py line 17"),
    "tabs and spaces": ({"model.py": MODEL.replace(b"        return", b"\treturn")}, "line 8"),
    "asynchronous": (
        {"model.py": MODEL.replace(b"def get_inputs", b"async def get_inputs")},
        "get_inputs()",
    ),
    "50 MB": ({"model.py": MODEL + b"#" * (50 << 20)}, "262,144 are allowed"),
    "toml too long": (
        {"model.py": MODEL, "problem.toml": b"a" + b".b" * 99_999 + b" = 1"},
        "4,000 are allowed",
    ),
    "toml nested": (
        {"model.py": MODEL, "problem.toml": b"variable_dims = " + b"[" * 3900},
        "brackets in too many brackets",
    ),
    "toml number": (
        {"model.py": MODEL, "problem.toml": b"threads = 0x" + b"f" * 3900},
        "between 1 and 256",
    ),
    "toml latin-1": ({"model.py": MODEL, "problem.toml": b'title = "caf\xe9"'}, "not UTF-8"),
    "toml NUL": ({"model.py": MODEL, "problem.toml": b'title = "a\\u0000b"'}, "one line of text"),
    "toml argument": (
        {"model.py": MODEL, "problem.toml": b'[variable_dims]\n"\\u0000" = [0]'},
        "names of forward's arguments",
    ),
    "toml version": ({"model.py": MODEL, "problem.toml": b"version = 7"}, "version must be 1"),
    "toml type": ({"model.py": MODEL, "problem.toml": b"threads = true"}, "expected int, got bool"),
    "toml precision": ({"model.py": MODEL, "problem.toml": b'precision = "fp8"'}, "ieee, tf32"),
}
