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


_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tanh sigmoid erf neg abs sign square "
    "reciprocal"
)
_ROUNDED = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "nearest"}
_SCALED = "Tensor Scalar"
# Operators with several forms: rule, name, overloads.
_OTHERS: tuple[tuple[Rule, str, str], ...] = (
    (add, "add", _SCALED),
    (sub, "sub", _SCALED),
    (rsub, "rsub", _SCALED),
    (_binary("mul"), "mul", _SCALED),
    (div, "div", "Tensor Scalar Tensor_mode"),
    (div, "true_divide", "Tensor"),
    (power, "pow", "Tensor_Scalar Tensor_Tensor Scalar"),
    (_binary("max"), "maximum", "default"),
    (_binary("max"), "max", "other"),
    (_binary("max"), "clamp_min", "default Tensor"),
    (_binary("min"), "minimum", "default"),
    (_binary("min"), "min", "other"),
    (_binary("min"), "clamp_max", "default Tensor"),
    (where, "where", "self ScalarSelf ScalarOther Scalar"),
    (masked_fill, "masked_fill", "Scalar Tensor"),
    (lerp, "lerp", "Scalar Tensor"),
    (addcmul, "addcmul", "default"),
    (addcdiv, "addcdiv", "default"),
    (_logical("logical_not"), "logical_not", "default"),
    (_bitwise("logical_not"), "bitwise_not", "default"),
    (_tests("isnan"), "isnan", "default"),
    (_tests("isinf"), "isinf", "default"),
)


def _forms(name: str, overloads: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten.{name}.{overload}": rule for overload in overloads.split()}


def _table() -> dict[str, Rule]:
    table: dict[str, Rule] = {}
    for op in _UNARY.split():
        table |= _forms(op, "default", _unary(op))
    for name, op in _ROUNDED.items():
        table |= _forms(name, "default", _rounded(op))
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        table |= _forms(op, _SCALED, _comparison(op))
    for op in ("and", "or", "xor"):
        table |= _forms(f"logical_{op}", "default", _logical(f"logical_{op}"))
        table |= _forms(f"bitwise_{op}", _SCALED, _bitwise(f"logical_{op}"))
        table |= _forms(f"__{op}__", _SCALED, _bitwise(f"logical_{op}"))
    for rule, name, overloads in _OTHERS:
        table |= _forms(name, overloads, rule)
    return table


POINTWISE_RULES = _table()
