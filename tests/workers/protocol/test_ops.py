"""The op manifest: what is generated from it must be safe to compile, so only what fits gets in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workers.protocol.codec import ProtocolError
from workers.protocol.ops import expression_names, parse_expression, parse_manifest

OP: dict[str, Any] = {
    "name": "bias_gelu",
    "launcher": "ws_bias_gelu",
    "inputs": [
        {"name": "x", "kind": "tensor", "dtype": "float32", "ndim": 2},
        {"name": "rows", "kind": "int"},
        {"name": "scale", "kind": "float"},
    ],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["x.0", "x.1"]}],
    "scratch": [{"name": "tmp", "bytes": "4 * x.1"}],
    "arguments": ["x", "y", "tmp", "x.0", "x.1", "rows", "scale"],
}


def manifest(*ops: dict[str, Any], **more: Any) -> str:
    return json.dumps({"version": 1, "ops": list(ops), **more})


def test_it_reads_the_example_of_its_own_documentation():
    op = parse_manifest(manifest(OP)).ops[0]
    assert (op.name, op.launcher, len(op.inputs)) == ("bias_gelu", "ws_bias_gelu", 3)
    assert expression_names(op) == {"x.0", "x.1", "x.numel", "rows"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "9x"}, "a letter first"),
        ({"name": 'a");system("x'}, "use letters"),
        ({"launcher": "f(); int g"}, "use letters"),
        ({"outputs": []}, "at least one output"),
        ({"arguments": ["z"]}, "'z' is not declared"),
        ({"arguments": ["x.2"]}, "'x.2' is not declared"),
        ({"inputs": [{"name": "x", "kind": "tensor"}]}, "exactly the tensors have a dtype"),
        ({"inputs": [{"name": "n", "kind": "int", "dtype": "int32"}]}, "exactly the tensors"),
        ({"inputs": [{"name": "x", "kind": "tensor", "dtype": "complex64"}]}, "is none of"),
        ({"inputs": [*OP["inputs"], {"name": "y", "kind": "int"}]}, "must differ"),
        ({"outputs": [{"name": "y", "dtype": "float32", "shape": ["x.9"]}]}, "'x.9' is not known"),
        ({"scratch": [{"name": "tmp", "bytes": "scale * 4"}]}, "'scale' is not known"),
        ({"kernel": "x"}, "unknown field 'kernel'"),
    ],
)
def test_it_says_what_is_wrong_with_an_op(change: dict[str, Any], complaint: str):
    with pytest.raises(ProtocolError, match=complaint):
        parse_manifest(manifest({**OP, **change}))


def test_it_refuses_two_ops_of_one_name_or_launcher():
    with pytest.raises(ProtocolError, match="must be unique"):
        parse_manifest(manifest(OP, OP))
    with pytest.raises(ProtocolError, match="must be unique"):
        parse_manifest(manifest(OP, {**OP, "name": "other"}))


def test_it_refuses_an_empty_manifest_and_a_newer_version():
    with pytest.raises(ProtocolError, match="one op at least"):
        parse_manifest(manifest())
    with pytest.raises(ProtocolError, match="this judge knows version 1"):
        parse_manifest(manifest(OP, version=2))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("x.0", ("x.0",)),
        (" 4*x.1 ", ("4", "*", "x.1")),
        ("(n + 31) / 32 * 32", ("(", "n", "+", "31", ")", "/", "32", "*", "32")),
        ("((1))", ("(", "(", "1", ")", ")")),
    ],
)
def test_it_reads_integer_expressions(text: str, tokens: tuple[str, ...]):
    assert parse_expression(text, frozenset({"x.0", "x.1", "n"})) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "x.0 +",
        "* 2",
        "(x.0",
        "x.0)",
        "x.0 x.0",
        "2 2",
        "abort()",
        "x.0;",
        "-1",
        "1e3",
        "a[0]",
    ],
)
def test_it_refuses_expressions_that_are_not_well_formed(text: str):
    with pytest.raises(ProtocolError, match="expression"):
        parse_expression(text, frozenset({"x.0"}))
