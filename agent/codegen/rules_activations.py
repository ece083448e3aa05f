"""Rules for activations: each is written out in elementary steps."""

from __future__ import annotations

import math

from agent.codegen.ir import Arg, Const, Ref
from agent.codegen.lowering import Call, Lowering, Rule

_SQRT_HALF = math.sqrt(0.5)
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def gelu(low: Lowering, call: Call) -> Ref:
    """Both forms of GELU."""
    x, dtype = call.arg(0), call.dtype
    half = low.map("mul", x, Const(0.5), dtype=dtype)
    if call.get(1, "approximate", "none") == "tanh":
        cube = low.map("mul", low.map("mul", x, x, dtype=dtype), x, dtype=dtype)
        inner = low.map("add", x, low.map("mul", cube, Const(0.044715), dtype=dtype), dtype=dtype)
        scaled = low.map("mul", inner, Const(math.sqrt(2.0 / math.pi)), dtype=dtype)
        gate = low.map("tanh", scaled, dtype=dtype)
    else:
        gate = low.map("erf", low.map("mul", x, Const(_SQRT_HALF), dtype=dtype), dtype=dtype)
    return low.map("mul", half, low.map("add", gate, Const(1.0), dtype=dtype), dtype=dtype)


def silu(low: Lowering, call: Call) -> Ref:
    """x sigmoid(x)"""
    x = call.arg(0)
    return low.map("mul", x, low.map("sigmoid", x, dtype=call.dtype), dtype=call.dtype)


def softplus(low: Lowering, call: Call) -> Ref:
    """log(1 + exp(beta x)) / beta, the identity above the threshold."""
    return _softplus(
        low, call.arg(0), call.number(1, "beta", 1.0), call.number(2, "threshold", 20.0), call.dtype
    )


def _softplus(low: Lowering, x: Arg, beta: float, threshold: float, dtype: str) -> Ref:
    scaled = low.map("mul", x, Const(beta), dtype=dtype)
    soft = low.map("log1p", low.map("exp", scaled, dtype=dtype), dtype=dtype)
    back = low.map("mul", soft, Const(1.0 / beta), dtype=dtype)
    above = low.map("gt", scaled, Const(threshold), dtype="bool", compute=dtype)
    return low.map("where", above, x, back, dtype=dtype)


def mish(low: Lowering, call: Call) -> Ref:
    """x tanh(softplus(x))"""
    soft = _softplus(low, call.arg(0), 1.0, 20.0, call.dtype)
    return low.map("mul", call.arg(0), low.map("tanh", soft, dtype=call.dtype), dtype=call.dtype)


def log_sigmoid(low: Lowering, call: Call) -> Ref:
    """min(x, 0) - log(1 + exp(-|x|))"""
    x, dtype = call.arg(0), call.dtype
    small = low.map("neg", low.map("abs", x, dtype=dtype), dtype=dtype)
    soft = low.map("log1p", low.map("exp", small, dtype=dtype), dtype=dtype)
    return low.map("sub", low.map("min", x, Const(0.0), dtype=dtype), soft, dtype=dtype)


def _exponential_unit(
    low: Lowering, x: Arg, alpha: float, scale: float, inner: float, dtype: str
) -> Ref:
    """scale * (x > 0 ? x : alpha * (exp(inner x) - 1))"""
    grown = low.map("expm1", low.map("mul", x, Const(inner), dtype=dtype), dtype=dtype)
    negative = low.map("mul", grown, Const(alpha * scale), dtype=dtype)
    positive = low.map("mul", x, Const(scale), dtype=dtype)
    above = low.map("gt", x, Const(0.0), dtype="bool", compute=dtype)
    return low.map("where", above, positive, negative, dtype=dtype)


def elu(low: Lowering, call: Call) -> Ref:
    """ELU with its three numbers."""
    alpha, scale = call.number(1, "alpha", 1.0), call.number(2, "scale", 1.0)
    return _exponential_unit(
        low, call.arg(0), alpha, scale, call.number(3, "input_scale", 1.0), call.dtype
    )


def selu(low: Lowering, call: Call) -> Ref:
    """SELU."""
    return _exponential_unit(low, call.arg(0), _SELU_ALPHA, _SELU_SCALE, 1.0, call.dtype)


def celu(low: Lowering, call: Call) -> Ref:
    """CELU."""
    alpha = call.number(1, "alpha", 1.0)
    return _exponential_unit(low, call.arg(0), alpha, 1.0, 1.0 / alpha, call.dtype)


def _clamped(low: Lowering, x: Arg, low_end: Arg | None, high_end: Arg | None, call: Call) -> Arg:
    if low_end is not None:
        x = low.map("max", x, low_end, dtype=call.dtype, shape=call.shape)
    if high_end is not None:
        x = low.map("min", x, high_end, dtype=call.dtype, shape=call.shape)
    return x


def clamp(low: Lowering, call: Call) -> Arg:
    """Either end may be missing."""
    least, most = call.get(1, "min"), call.get(2, "max")
    return _clamped(
        low,
        call.arg(0),
        least if isinstance(least, (Ref, Const)) else None,
        most if isinstance(most, (Ref, Const)) else None,
        call,
    )


def hardtanh(low: Lowering, call: Call) -> Arg:
    """Clamp between two numbers."""
    ends = (Const(call.number(1, "min_val", -1.0)), Const(call.number(2, "max_val", 1.0)))
    return _clamped(low, call.arg(0), *ends, call=call)


def relu6(low: Lowering, call: Call) -> Arg:
    """Clamp between 0 and 6."""
    return _clamped(low, call.arg(0), Const(0.0), Const(6.0), call)


def relu(low: Lowering, call: Call) -> Arg:
    """max(x, 0)"""
    return _clamped(low, call.arg(0), Const(0), None, call)


def hardsigmoid(low: Lowering, call: Call) -> Ref:
    """clamp(x + 3, 0, 6) / 6"""
    inner = _clamped(
        low, low.map("add", call.arg(0), Const(3.0), dtype=call.dtype), Const(0.0), Const(6.0), call
    )
    return low.map("mul", inner, Const(1.0 / 6.0), dtype=call.dtype)


def hardswish(low: Lowering, call: Call) -> Ref:
    """x hardsigmoid(x)"""
    return low.map("mul", call.arg(0), hardsigmoid(low, call), dtype=call.dtype)


def leaky_relu(low: Lowering, call: Call) -> Ref:
    """x above 0, slope x below"""
    x, dtype = call.arg(0), call.dtype
    slope = Const(call.number(1, "negative_slope", 0.01))
    above = low.map("gt", x, Const(0.0), dtype="bool", compute=dtype)
    return low.map("where", above, x, low.map("mul", x, slope, dtype=dtype), dtype=dtype)


def prelu(low: Lowering, call: Call) -> Ref:
    """Leaky ReLU whose slope is a parameter, one for all or one per channel (dimension 1)."""
    x, slope, dtype = call.tensor(0), call.tensor(1), call.dtype
    if slope.numel != 1 and len(x.shape) > 1:
        slope = low.view(slope, (slope.numel, *(1 for _ in x.shape[2:])))
    above = low.map("gt", x, Const(0.0), dtype="bool", compute=dtype)
    below = low.map("mul", x, slope, dtype=dtype, shape=x.shape)
    return low.map("where", above, x, below, dtype=dtype)


def threshold(low: Lowering, call: Call) -> Ref:
    """x above the threshold, else a number"""
    x, dtype = call.arg(0), call.dtype
    below = low.map("le", x, Const(call.number(1, "threshold")), dtype="bool", compute=dtype)
    return low.map("where", below, Const(call.number(2, "value")), x, dtype=dtype)


_BY_NAME: tuple[Rule, ...] = (
    gelu,
    silu,
    softplus,
    mish,
    log_sigmoid,
    elu,
    selu,
    celu,
    clamp,
    hardtanh,
    relu6,
    relu,
    hardsigmoid,
    hardswish,
    leaky_relu,
    prelu,
    threshold,
)

ACTIVATION_RULES: dict[str, Rule] = {
    **{f"aten.{rule.__name__}.default": rule for rule in _BY_NAME},
    "aten.clamp.Tensor": clamp,
    "aten.clip.default": clamp,
    "aten._prelu_kernel.default": prelu,
    "aten.log_sigmoid.default": log_sigmoid,
}
