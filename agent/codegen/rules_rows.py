"""Rules for reductions over the last dimensions and for operators that are made of them."""

from __future__ import annotations

import math

from agent.codegen.ir import FLOATS, Arg, Const, Ref
from agent.codegen.lowering import Call, Lowering, Rule, Value


def _last_dims(call: Call, x: Ref, position: int, name: str) -> int:
    """How many dimensions are reduced; refuses those that are not the last ones."""
    axes = call.integers(position, name)
    rank = len(x.shape)
    if not axes:
        return rank
    wanted = {axis % rank for axis in axes} if rank else set()
    reduced = {axis for axis in range(rank) if axis in wanted}
    # Dimensions of size 1 behind the reduced ones do not matter.
    first = min(reduced, default=rank)
    if any(axis not in reduced and x.shape[axis] != 1 for axis in range(first, rank)):
        raise call.refusal(f"over dimension {first - rank} of {list(x.shape)}: only the last ones")
    return rank - first


def _finish(low: Lowering, call: Call, reduced: Ref) -> Ref:
    """The result in the shape that the graph says, with or without the reduced dimensions."""
    return low.view(reduced, call.shape)


def _floating(low: Lowering, call: Call, position: int = 0) -> Ref:
    """The first argument in the result's element type, which must be a float type."""
    if call.dtype not in FLOATS:
        raise call.refusal(f"in {call.dtype}")
    cast = low.cast(call.tensor(position), call.dtype)
    if not isinstance(cast, Ref):
        raise call.refusal()
    return cast


def reduce_sum(low: Lowering, call: Call) -> Ref:
    """Sum over the last dimensions or over everything."""
    if call.node.target == "aten.sum.default":
        x = _floating(low, call)
        return _finish(low, call, low.reduce("reduce_sum", x, len(x.shape), call.dtype))
    x = _floating(low, call)
    count = _last_dims(call, x, 1, "dim")
    return _finish(low, call, low.reduce("reduce_sum", x, count, call.dtype))


def mean(low: Lowering, call: Call) -> Ref:
    """Mean over the last dimensions or over everything."""
    x = _floating(low, call)
    whole = call.node.target == "aten.mean.default"
    count = len(x.shape) if whole else _last_dims(call, x, 1, "dim")
    return _finish(low, call, _mean(low, x, count, call.dtype))


def _mean(low: Lowering, x: Ref, count: int, dtype: str) -> Ref:
    total = low.reduce("reduce_sum", x, count, dtype)
    return low.map("mul", total, Const(1.0 / max(_extent(x, count), 1)), dtype=dtype)


def _extent(x: Ref, count: int) -> int:
    return math.prod(x.shape[len(x.shape) - count :])


def _extreme(op: str) -> Rule:
    def rule(low: Lowering, call: Call) -> Ref:
        x = _floating(low, call)
        whole = call.node.target in ("aten.max.default", "aten.min.default")
        count = len(x.shape) if whole else _last_dims(call, x, 1, "dim")
        return _finish(low, call, low.reduce(op, x, count, call.dtype))

    return rule


def _spread(low: Lowering, x: Ref, count: int, less: float, dtype: str) -> tuple[Ref, Ref]:
    """Variance (divisor N - less) and mean, in two passes: the second one sees small numbers only."""
    middle = _mean(low, x, count, dtype)
    gap = low.map("sub", x, middle, dtype=dtype)
    total = low.reduce("reduce_sum", low.map("square", gap, dtype=dtype), count, dtype)
    divisor = _extent(x, count) - less
    factor = 1.0 / divisor if divisor > 0 else math.inf
    return low.map("mul", total, Const(factor), dtype=dtype), middle


def _correction(call: Call) -> float:
    if call.node.target.endswith(".correction"):
        return call.number(2, "correction", 1.0)
    position = 1 if call.node.target.endswith(".default") else 2
    return 1.0 if call.flag(position, "unbiased", True) else 0.0


def _variance_count(call: Call, x: Ref) -> int:
    if call.node.target.endswith(".default"):
        return len(x.shape)
    return _last_dims(call, x, 1, "dim")


def variance(low: Lowering, call: Call) -> Ref:
    """Variance over the last dimensions."""
    x = _floating(low, call)
    spread, _ = _spread(low, x, _variance_count(call, x), _correction(call), call.dtype)
    return _finish(low, call, spread)


def deviation(low: Lowering, call: Call) -> Ref:
    """Standard deviation over the last dimensions."""
    x = _floating(low, call)
    spread, _ = _spread(low, x, _variance_count(call, x), _correction(call), call.dtype)
    return _finish(low, call, low.map("sqrt", spread, dtype=call.dtype))


def variance_and_mean(low: Lowering, call: Call) -> Value:
    """Both; two results."""
    x = _floating(low, call)
    spread, middle = _spread(low, x, _variance_count(call, x), _correction(call), call.dtype)
    return [_finish(low, call, spread), _finish(low, call, middle)]


def _shifted(low: Lowering, x: Ref, count: int, dtype: str) -> tuple[Ref, Ref]:
    """x - max and exp(x - max): no power overflows."""
    top = low.reduce("reduce_max", x, count, dtype)
    below = low.map("sub", x, top, dtype=dtype)
    return below, low.map("exp", below, dtype=dtype)


def _softmax_dims(call: Call, x: Ref) -> int:
    axis = int(call.number(1, "dim"))
    rank = len(x.shape)
    if rank == 0:
        return 0
    if any(size != 1 for size in x.shape[axis % rank + 1 :]):
        raise call.refusal(f"over dimension {axis} of {list(x.shape)}: only the last one")
    return rank - axis % rank


def softmax(low: Lowering, call: Call) -> Ref:
    """exp(x - max) / sum"""
    x = _floating(low, call)
    count = _softmax_dims(call, x)
    _, power = _shifted(low, x, count, call.dtype)
    total = low.reduce("reduce_sum", power, count, call.dtype)
    inverse = low.map("reciprocal", total, dtype=call.dtype)
    return low.map("mul", power, inverse, dtype=call.dtype)


def log_softmax(low: Lowering, call: Call) -> Ref:
    """x - max - log(sum)"""
    x = _floating(low, call)
    count = _softmax_dims(call, x)
    below, power = _shifted(low, x, count, call.dtype)
    total = low.reduce("reduce_sum", power, count, call.dtype)
    return low.map("sub", below, low.map("log", total, dtype=call.dtype), dtype=call.dtype)


def logsumexp(low: Lowering, call: Call) -> Ref:
    """max + log(sum(exp(x - max))); an infinite max is left out of the difference."""
    x, dtype = _floating(low, call), call.dtype
    count = _last_dims(call, x, 1, "dim")
    top = low.reduce("reduce_max", x, count, dtype)
    endless = low.map("isinf", top, dtype="bool", compute=dtype)
    shift = low.map("where", endless, Const(0.0), top, dtype=dtype)
    power = low.map("exp", low.map("sub", x, shift, dtype=dtype), dtype=dtype)
    total = low.reduce("reduce_sum", power, count, dtype)
    return _finish(
        low, call, low.map("add", low.map("log", total, dtype=dtype), shift, dtype=dtype)
    )


def layer_norm(low: Lowering, call: Call) -> Ref:
    """(x - mean) / sqrt(var + eps) * weight + bias"""
    return _layer_norm(low, call)[0]


def native_layer_norm(low: Lowering, call: Call) -> Value:
    """The same with mean and reciprocal deviation as further results."""
    return list(_layer_norm(low, call))


def _layer_norm(low: Lowering, call: Call) -> tuple[Ref, Ref, Ref]:
    x, dtype = _floating(low, call), call.dtype
    count = len(call.integers(1, "normalized_shape") or [])
    spread, middle = _spread(low, x, count, 0.0, dtype)
    eps = Const(call.number(4, "eps", 1e-5))
    inverse = low.map("rsqrt", low.map("add", spread, eps, dtype=dtype), dtype=dtype)
    result = low.map("mul", low.map("sub", x, middle, dtype=dtype), inverse, dtype=dtype)
    return _affine(low, call, result, 2), middle, inverse


def _affine(low: Lowering, call: Call, result: Ref, position: int) -> Ref:
    for op, place, name in (("mul", position, "weight"), ("add", position + 1, "bias")):
        factor = call.get(place, name)
        if isinstance(factor, Ref):
            result = low.map(op, result, factor, dtype=call.dtype)
    return result


def rms_norm(low: Lowering, call: Call) -> Ref:
    """x / sqrt(mean(x^2) + eps) * weight"""
    x, dtype = _floating(low, call), call.dtype
    count = len(call.integers(1, "normalized_shape") or [])
    default = 2.0**-23 if dtype == "float32" else 2.0**-52
    eps = Const(call.number(3, "eps", default))
    squares = _mean(low, low.map("square", x, dtype=dtype), count, dtype)
    inverse = low.map("rsqrt", low.map("add", squares, eps, dtype=dtype), dtype=dtype)
    result = low.map("mul", x, inverse, dtype=dtype)
    weight = call.get(2, "weight")
    return low.map("mul", result, weight, dtype=dtype) if isinstance(weight, Ref) else result


def vector_norm(low: Lowering, call: Call) -> Ref:
    """Norms 1, 2 and infinity over the last dimensions."""
    x, dtype = _floating(low, call), call.dtype
    order = call.number(1, "ord", 2.0)
    count = _last_dims(call, x, 2, "dim")
    if order == 2.0:
        total = low.reduce("reduce_sum", low.map("square", x, dtype=dtype), count, dtype)
        return _finish(low, call, low.map("sqrt", total, dtype=dtype))
    size = low.map("abs", x, dtype=dtype)
    if order == 1.0:
        return _finish(low, call, low.reduce("reduce_sum", size, count, dtype))
    if math.isinf(order):
        op = "reduce_max" if order > 0 else "reduce_min"
        return _finish(low, call, low.reduce(op, size, count, dtype))
    raise call.refusal(f"of order {order:g}")


def batch_norm(low: Lowering, call: Call) -> Ref:
    """Batch norm with running statistics: a factor and a summand per channel."""
    if call.flag(5, "training"):
        raise call.refusal("in training mode")
    return _batch_norm(low, call, call.number(7, "eps", 1e-5))


def batch_norm_inference(low: Lowering, call: Call) -> Value:
    """The form without training; its further results are empty."""
    return [_batch_norm(low, call, call.number(6, "eps", 1e-5))]


def _batch_norm(low: Lowering, call: Call, eps: float) -> Ref:
    x, dtype = _floating(low, call), call.dtype
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))

    def channel(position: int) -> Ref | None:
        value = call.get(position, "")
        return low.view(value, shape) if isinstance(value, Ref) else None

    weight, bias, middle, spread = (channel(i) for i in (1, 2, 3, 4))
    if middle is None or spread is None:
        raise call.refusal("without running statistics")
    inverse = low.map("rsqrt", low.map("add", spread, Const(eps), dtype=dtype), dtype=dtype)
    result: Arg = low.map("sub", x, middle, dtype=dtype)
    factor = inverse if weight is None else low.map("mul", inverse, weight, dtype=dtype)
    scaled = low.map("mul", result, factor, dtype=dtype)
    return scaled if bias is None else low.map("add", scaled, bias, dtype=dtype)


ROW_RULES: dict[str, Rule] = {
    "aten.sum.default": reduce_sum,
    "aten.sum.dim_IntList": reduce_sum,
    "aten.mean.default": mean,
    "aten.mean.dim": mean,
    "aten.amax.default": _extreme("reduce_max"),
    "aten.amin.default": _extreme("reduce_min"),
    "aten.max.default": _extreme("reduce_max"),
    "aten.min.default": _extreme("reduce_min"),
    "aten.var.default": variance,
    "aten.var.dim": variance,
    "aten.var.correction": variance,
    "aten.std.default": deviation,
    "aten.std.dim": deviation,
    "aten.std.correction": deviation,
    "aten.var_mean.correction": variance_and_mean,
    "aten.softmax.int": softmax,
    "aten._softmax.default": softmax,
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax.default": log_softmax,
    "aten.logsumexp.default": logsumexp,
    "aten.layer_norm.default": layer_norm,
    "aten.native_layer_norm.default": native_layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.batch_norm.default": batch_norm,
    "aten._native_batch_norm_legit_no_training.default": batch_norm_inference,
}
