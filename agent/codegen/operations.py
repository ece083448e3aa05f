"""How each operation of the steps is written in C++."""

from __future__ import annotations

import math
import struct

from agent.codegen.ir import CannotGenerate

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "bool": "bool",
}
MEMORY_TYPES = {**C_TYPES, "bool": "uint8_t"}

# Worth keeping in a row buffer rather than computing again in the next pass.
COSTLY = frozenset(
    [
        "exp",
        "expm1",
        "exp2",
        "log",
        "log2",
        "log10",
        "log1p",
        "tanh",
        "erf",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "pow",
        "sin",
        "cos",
        "div",
        "reciprocal",
    ]
)
REDUCE_START = {"reduce_sum": "0", "reduce_max": "-{inf}", "reduce_min": "{inf}"}

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "logical_and": "&",
    "logical_or": "|",
    "logical_xor": "!=",
}
_CALLS = {
    "abs": "ws::absolute",
    "max": "ws::maximum",
    "min": "ws::minimum",
    "sign": "ws::sign",
    "isinf": "ws::isinf",
    **{
        name: f"ws::{name}"
        for name in [
            "exp",
            "expm1",
            "exp2",
            "log",
            "log2",
            "log10",
            "log1p",
            "tanh",
            "erf",
            "sigmoid",
            "sqrt",
            "rsqrt",
            "pow",
            "sin",
            "cos",
            "floor",
            "ceil",
            "trunc",
            "nearest",
        ]
    },
}


def expression(op: str, args: list[str], compute: str) -> str:
    """The C++ expression of an operation on arguments that are already of the type `compute`."""
    one = literal(1, compute)
    special = {
        "copy": "{0}",
        "neg": "-{0}",
        "square": "{0} * {0}",
        "reciprocal": one + " / {0}",
        "logical_not": "!{0}",
        "isnan": "{0} != {0}",
        "where": "{0} ? {1} : {2}",
    }
    if op in special:
        return special[op].format(*args)
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(args)})"
    raise CannotGenerate(f"codegen has no C++ for the step {op}.")


def literal(value: float, dtype: str) -> str:
    """A number as C++ text of an element type."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("int64", "int32"):
        return str(int(value))
    kind = C_TYPES[dtype]
    value = float(value)
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    if dtype == "float64":
        return _with_point(repr(value))
    try:
        rounded = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return f"{'-' if value < 0 else ''}std::numeric_limits<float>::infinity()"
    return _with_point(f"{rounded:.9g}") + "f"


def _with_point(text: str) -> str:
    return text if "." in text or "e" in text else f"{text}.0"
