"""Rules for operators that work element by element."""

from __future__ import annotations

import math

from agent.codegen.ir import FLOATS, Arg, Const, Ref
from agent.codegen.lowering import Call, Lowering, Rule, promote


def _unary(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        return low.map(op, call.arg(0), dtype=call.dtype)

    return rule


def _binary(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        return low.map(op, call.arg(0), call.arg(1), dtype=call.dtype, shape=call.shape)

    return rule


def _comparison(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        args = (call.arg(0), call.arg(1))
        return low.map(op, *args, dtype="bool", compute=promote(args), shape=call.shape)

    return rule


def _logical(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        args: list[Arg] = [call.arg(i) for i in range(len(call.args))]
        return low.map(op, *args, dtype=call.dtype, compute="bool", shape=call.shape)

    return rule


def _bitwise(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        if call.dtype != "bool":
            raise call.refusal(f"in {call.dtype}")
        return _logical(op)(low, call)  # type: ignore[return-value]

    return rule


def _scaled(low: Lowering, call: Call, arg: Arg) -> Arg:
    """`arg` times the keyword `alpha` of add and sub."""
    alpha = call.get(2, "alpha")
    if not isinstance(alpha, Const) or alpha.value == 1:
        return arg
    if isinstance(arg, Const):
        return Const(arg.value * alpha.value)
    return low.map("mul", arg, alpha, dtype=call.dtype)


def add(low: Lowering, call: Call) -> Ref:
    """a + alpha b"""
    return low.map(
        "add", call.arg(0), _scaled(low, call, call.arg(1)), dtype=call.dtype, shape=call.shape
    )


def sub(low: Lowering, call: Call) -> Ref:
    """a - alpha b"""
    return low.map(
        "sub", call.arg(0), _scaled(low, call, call.arg(1)), dtype=call.dtype, shape=call.shape
    )


def rsub(low: Lowering, call: Call) -> Ref:
    """b - alpha a"""
    return low.map(
        "sub", call.arg(1), _scaled(low, call, call.arg(0)), dtype=call.dtype, shape=call.shape
    )


def div(low: Lowering, call: Call) -> Ref:
    """a / b; by a constant it becomes a product with the reciprocal, as in torch."""
    if call.get(2, "rounding_mode") is not None:
        raise call.refusal("with a rounding mode")
    by = call.arg(1)
    if isinstance(by, Const) and by.value != 0 and math.isfinite(1.0 / by.value):
        factor = Const(1.0 / by.value)
        return low.map("mul", call.arg(0), factor, dtype=call.dtype, shape=call.shape)
    return low.map("div", call.arg(0), by, dtype=call.dtype, shape=call.shape)


def power(low: Lowering, call: Call) -> Ref:
    """a ** b; small exponents become products and roots."""
    base, exponent = call.arg(0), call.arg(1)
    if isinstance(exponent, Const) and isinstance(base, Ref):
        value = float(exponent.value)
        if value in (0.5, -0.5) and call.dtype in FLOATS:
            return low.map("sqrt" if value > 0 else "rsqrt", base, dtype=call.dtype)
        if value.is_integer() and 1 <= abs(value) <= 8:
            raised = _product(low, base, int(abs(value)), call.dtype)
            if value < 0:
                raised = low.map("div", Const(1.0), raised, dtype=call.dtype)
            return raised
    if call.dtype not in FLOATS:
        raise call.refusal(f"in {call.dtype}")
    return low.map("pow", base, exponent, dtype=call.dtype, shape=call.shape)


def _product(low: Lowering, base: Ref, exponent: int, dtype: str) -> Ref:
    if exponent == 1:
        return low.map("copy", base, dtype=dtype)
    half = low.map("mul", base, base, dtype=dtype)
    if exponent == 2:
        return half
    rest = _product(low, half, exponent // 2, dtype)
    return low.map("mul", rest, base, dtype=dtype) if exponent % 2 else rest


def where(low: Lowering, call: Call) -> Ref:
    """Choose by a mask."""
    return low.map(
        "where", call.arg(0), call.arg(1), call.arg(2), dtype=call.dtype, shape=call.shape
    )


def masked_fill(low: Lowering, call: Call) -> Ref:
    """A number where the mask is true."""
    return low.map(
        "where", call.arg(1), call.arg(2), call.arg(0), dtype=call.dtype, shape=call.shape
    )


def addcmul(low: Lowering, call: Call) -> Ref:
    """a + value b c"""
    return _add_combined(low, call, "mul")


def addcdiv(low: Lowering, call: Call) -> Ref:
    """a + value b / c"""
    return _add_combined(low, call, "div")


def _add_combined(low: Lowering, call: Call, op: str) -> Ref:
    combined = low.map(op, call.arg(1), call.arg(2), dtype=call.dtype)
    value = call.number(3, "value", 1.0)
    if value != 1.0:
        combined = low.map("mul", combined, Const(value), dtype=call.dtype)
    return low.map("add", call.arg(0), combined, dtype=call.dtype, shape=call.shape)


def lerp(low: Lowering, call: Call) -> Ref:
    """a + weight (b - a)"""
    gap = low.map("sub", call.arg(1), call.arg(0), dtype=call.dtype)
    step = low.map("mul", gap, call.arg(2), dtype=call.dtype)
    return low.map("add", call.arg(0), step, dtype=call.dtype, shape=call.shape)


def _rounded(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        name = op if call.dtype in FLOATS else "copy"
        return low.map(name, call.arg(0), dtype=call.dtype)

    return rule


def _tests(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        x = call.tensor(0)
        if x.dtype not in FLOATS:
            raise call.refusal(f"in {x.dtype}")
        return low.map(op, x, dtype="bool", compute=x.dtype)

    return rule


def _forms(base: str, *overloads: str) -> list[str]:
    return [f"aten.{base}.{overload}" for overload in (overloads or ("default",))]


def _table() -> dict[str, Rule]:
    table: dict[str, Rule] = {}

    def put(rule: Rule, *targets: str) -> None:
        table.update(dict.fromkeys(targets, rule))

    for op in (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
    ):
        put(_unary(op), *_forms(op))
    for op in ("tanh", "sigmoid", "erf", "neg", "abs", "sign", "square", "reciprocal"):
        put(_unary(op), *_forms(op))
    for op, name in (
        ("floor", "floor"),
        ("ceil", "ceil"),
        ("trunc", "trunc"),
        ("nearest", "round"),
    ):
        put(_rounded(op), *_forms(name))
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        put(_comparison(op), *_forms(op, "Tensor", "Scalar"))
    for op in ("and", "or", "xor"):
        put(_logical(f"logical_{op}"), *_forms(f"logical_{op}"))
        put(_bitwise(f"logical_{op}"), *_forms(f"bitwise_{op}", "Tensor", "Scalar"))
        put(_bitwise(f"logical_{op}"), *_forms(f"__{op}__", "Tensor", "Scalar"))
    put(_logical("logical_not"), *_forms("logical_not"))
    put(_bitwise("logical_not"), *_forms("bitwise_not"))
    put(_tests("isnan"), *_forms("isnan"))
    put(_tests("isinf"), *_forms("isinf"))
    put(add, *_forms("add", "Tensor", "Scalar"))
    put(sub, *_forms("sub", "Tensor", "Scalar"))
    put(rsub, *_forms("rsub", "Tensor", "Scalar"))
    put(_binary("mul"), *_forms("mul", "Tensor", "Scalar"))
    put(div, *_forms("div", "Tensor", "Scalar", "Tensor_mode"), *_forms("true_divide", "Tensor"))
    put(power, *_forms("pow", "Tensor_Scalar", "Tensor_Tensor", "Scalar"))
    put(
        _binary("max"),
        *_forms("maximum"),
        *_forms("max", "other"),
        *_forms("clamp_min", "default", "Tensor"),
    )
    put(
        _binary("min"),
        *_forms("minimum"),
        *_forms("min", "other"),
        *_forms("clamp_max", "default", "Tensor"),
    )
    put(where, *_forms("where", "self", "ScalarSelf", "ScalarOther", "Scalar"))
    put(masked_fill, *_forms("masked_fill", "Scalar", "Tensor"))
    put(lerp, *_forms("lerp", "Scalar", "Tensor"))
    put(addcmul, *_forms("addcmul"))
    put(addcdiv, *_forms("addcdiv"))
    return table


POINTWISE_RULES = _table()
