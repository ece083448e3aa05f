"""Rules for views, casts and copies: most of them cost nothing."""

from __future__ import annotations

import math

from agent.codegen.ir import Const, Ref, broadcast_strides
from agent.codegen.lowering import Call, Lowering, Rule, Value


def identity(low: Lowering, call: Call) -> Ref:
    """The same tensor."""
    return call.tensor(0)


def nothing(low: Lowering, call: Call) -> Value:
    """An assertion of the exporter; it has no result."""
    return None


def dropout(low: Lowering, call: Call) -> Ref:
    """The identity, unless it drops."""
    if call.flag(2, "train") and call.number(1, "p", 0.5) > 0:
        raise call.refusal("in training mode")
    return call.tensor(0)


def shaped(low: Lowering, call: Call) -> Ref:
    """Any view that keeps the order of the elements; its shape stands in the graph."""
    return low.view(call.tensor(0), call.shape)


def expand(low: Lowering, call: Call) -> Ref:
    """Stretch without copying."""
    x = call.tensor(0)
    return Ref(x.name, call.shape, broadcast_strides(x, call.shape), x.dtype, x.offset)


def permute(low: Lowering, call: Call) -> Ref:
    """Another order of the dimensions."""
    x = call.tensor(0)
    order = call.integers(1, "dims") or []
    rank = len(x.shape)
    axes = [axis % rank for axis in order]
    return _reordered(x, axes)


def transpose(low: Lowering, call: Call) -> Ref:
    """Two dimensions swapped."""
    x = call.tensor(0)
    rank = len(x.shape)
    axes = list(range(rank))
    if rank:
        one, two = int(call.number(1, "dim0")) % rank, int(call.number(2, "dim1")) % rank
        axes[one], axes[two] = two, one
    return _reordered(x, axes)


def reversed_dims(low: Lowering, call: Call) -> Ref:
    """All dimensions, or the last two, swapped."""
    x = call.tensor(0)
    axes = list(range(len(x.shape)))
    if call.node.target == "aten.mT.default":
        axes[-2:] = axes[:-3:-1]
    else:
        axes.reverse()
    return _reordered(x, axes)


def _reordered(x: Ref, axes: list[int]) -> Ref:
    shape = tuple(x.shape[axis] for axis in axes)
    strides = tuple(x.strides[axis] for axis in axes)
    return Ref(x.name, shape, strides, x.dtype, x.offset)


def select(low: Lowering, call: Call) -> Ref:
    """One index of a dimension."""
    x = call.tensor(0)
    axis = int(call.number(1, "dim")) % len(x.shape)
    index = int(call.number(2, "index")) % x.shape[axis]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    strides = x.strides[:axis] + x.strides[axis + 1 :]
    return Ref(x.name, shape, strides, x.dtype, x.offset + index * x.strides[axis])


def slice_rule(low: Lowering, call: Call) -> Ref:
    """A range of a dimension; its length stands in the graph."""
    x = call.tensor(0)
    axis = int(call.number(1, "dim", 0)) % len(x.shape)
    start = int(call.number(2, "start", 0))
    start = max(0, start + x.shape[axis] if start < 0 else start)
    step = int(call.number(4, "step", 1))
    strides = tuple(s * step if i == axis else s for i, s in enumerate(x.strides))
    start = min(start, x.shape[axis])
    return Ref(x.name, call.shape, strides, x.dtype, x.offset + start * x.strides[axis])


def pieces(low: Lowering, call: Call) -> Value:
    """chunk and split: the lengths stand in the graph."""
    x = call.tensor(0)
    axis = int(call.number(2, "dim", 0)) % len(x.shape)
    parts: list[Value] = []
    offset = x.offset
    for made in call.node.outputs:
        parts.append(Ref(x.name, made.shape, x.strides, x.dtype, offset))
        offset += made.shape[axis] * x.strides[axis]
    return parts


def getitem(low: Lowering, call: Call) -> Value:
    """One of several results."""
    parts = call.get(0, "")
    index = int(call.number(1, ""))
    if isinstance(parts, list) and index < len(parts):
        return parts[index]
    raise call.refusal(f"with its result {index + 1}")


def cast(low: Lowering, call: Call) -> Value:
    """Another element type; the same one costs nothing."""
    x = call.tensor(0)
    return low.cast(x, call.dtype)


def filled(value: float) -> Rule:
    """zeros and ones: a number stretched over a shape."""

    def rule(low: Lowering, call: Call) -> Value:
        return _constant(low, call, Const(value))

    return rule


def full(low: Lowering, call: Call) -> Value:
    """A number stretched over a shape."""
    return _constant(low, call, Const(call.number(1, "fill_value")))


def scalar_tensor(low: Lowering, call: Call) -> Value:
    """A number as a tensor."""
    return _constant(low, call, Const(call.number(0, "s")))


def _constant(low: Lowering, call: Call, value: Const) -> Value:
    if math.prod(call.shape) == 1 and not call.shape:
        return value
    return low.map("copy", value, dtype=call.dtype, shape=call.shape)


_SHAPED = (
    "view.default reshape.default _unsafe_view.default flatten.using_ints unflatten.int "
    "unsqueeze.default squeeze.default squeeze.dim squeeze.dims view_as.default reshape_as.default"
)
_IDENTITY = (
    "alias.default detach.default contiguous.default clone.default lift_fresh_copy.default "
    "detach_.default positive.default"
)
_CASTS = (
    "to.dtype to.dtype_layout to.other to.device _to_copy.default type_as.default "
    "float.default double.default"
)


def _named(names: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten.{name}": rule for name in names.split()}


VIEW_RULES: dict[str, Rule] = {
    **_named(_SHAPED, shaped),
    **_named(_IDENTITY, identity),
    **_named(_CASTS, cast),
    **_named("expand.default expand_as.default", expand),
    **_named("permute.default", permute),
    **_named("transpose.int", transpose),
    **_named("t.default numpy_T.default mT.default", reversed_dims),
    **_named("select.int", select),
    **_named("slice.Tensor", slice_rule),
    **_named("chunk.default split.Tensor split_with_sizes.default split.sizes", pieces),
    **_named("dropout.default dropout_.default", dropout),
    **_named("full.default full_like.default", full),
    **_named("zeros.default zeros_like.default", filled(0.0)),
    **_named("ones.default ones_like.default", filled(1.0)),
    **_named("scalar_tensor.default", scalar_tensor),
    **_named("_assert_tensor_metadata.default", nothing),
    "getitem": getitem,
}
