"""How much work an operator of a captured graph is: operations by the textbook, bytes by shapes.

One operation per output element for arithmetic, comparison and elementary functions; the usual sums for
activations; 2 m n k for products of matrices. Views, copies and constructors count no operations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Operations per output element of activations that are several elementary steps.
_PER_ELEMENT = {
    "gelu": 5,
    "silu": 4,
    "mish": 5,
    "softplus": 3,
    "elu": 3,
    "selu": 4,
    "celu": 4,
    "sigmoid": 3,
    "hardswish": 4,
    "hardsigmoid": 3,
    "hardtanh": 2,
    "leaky_relu": 2,
    "log_sigmoid": 4,
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
    "clamp": 2,
    "softmax": 5,
    "_softmax": 5,
    "log_softmax": 5,
    "_log_softmax": 5,
    "layer_norm": 8,
    "native_layer_norm": 8,
    "rms_norm": 5,
    "group_norm": 8,
    "batch_norm": 2,
    "instance_norm": 8,
    "normalize": 4,
}
# Operations per input element of reductions.
_PER_INPUT = {
    "sum": 1,
    "mean": 1,
    "prod": 1,
    "amax": 1,
    "amin": 1,
    "max": 1,
    "min": 1,
    "any": 1,
    "all": 1,
    "argmax": 1,
    "argmin": 1,
    "cumsum": 1,
    "logsumexp": 4,
    "var": 3,
    "std": 3,
    "var_mean": 3,
    "linalg_vector_norm": 2,
    "norm": 2,
}
_ELEMENTARY = frozenset(
    [
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "neg",
        "abs",
        "sign",
        "pow",
        "square",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "erfc",
        "relu",
        "relu6",
        "floor",
        "ceil",
        "round",
        "trunc",
        "frac",
        "maximum",
        "minimum",
        "fmod",
        "remainder",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_not",
        "bitwise_xor",
        "where",
        "masked_fill",
        "threshold",
        "clamp_min",
        "clamp_max",
        "isnan",
        "isinf",
        "isfinite",
        "floor_divide",
        "true_divide",
        "multiply",
        "subtract",
        "divide",
        "greater",
        "less",
        "greater_equal",
        "less_equal",
        "not_equal",
    ]
)
_FREE = frozenset(
    [
        "getitem",
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unflatten",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "permute",
        "transpose",
        "t",
        "numpy_T",
        "mT",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "narrow",
        "alias",
        "detach",
        "contiguous",
        "clone",
        "to",
        "_to_copy",
        "copy",
        "cat",
        "stack",
        "repeat",
        "full",
        "full_like",
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "empty",
        "empty_like",
        "arange",
        "scalar_tensor",
        "lift_fresh_copy",
        "dropout",
        "_assert_tensor_metadata",
        "type_as",
        "view_as",
        "tril",
        "triu",
        "roll",
        "flip",
        "gather",
        "index",
        "index_select",
        "embedding",
        "pad",
        "constant_pad_nd",
        "identity",
    ]
)
_VIEWS = frozenset(
    [
        "getitem",
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unflatten",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "permute",
        "transpose",
        "t",
        "numpy_T",
        "mT",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "narrow",
        "alias",
        "detach",
        "view_as",
        "_assert_tensor_metadata",
    ]
)


def node_flops(node: Any) -> int | None:
    """Operations of a call; None where nobody has counted this operator yet."""
    name = _short_name(node)
    counted = _matrix_flops(name, node)
    if counted is not None:
        return counted
    elements = sum(tensor.numel() for tensor in _tensors(node.meta.get("val"))[:1])
    if name in _FREE:
        return 0
    if name in _ELEMENTARY:
        return elements
    if name in _PER_ELEMENT:
        return _PER_ELEMENT[name] * elements
    if name in _PER_INPUT:
        read = _argument_tensors(node)
        return _PER_INPUT[name] * (read[0].numel() if read else 0)
    return None


def node_bytes(node: Any) -> tuple[int, int]:
    """Bytes that a call reads and writes; views touch nothing."""
    if _short_name(node) in _VIEWS and _is_alias(node):
        return 0, 0
    read = sum(tensor_bytes(tensor) for tensor in _argument_tensors(node))
    written = sum(tensor_bytes(tensor) for tensor in _tensors(node.meta.get("val")))
    return read, written


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements that a tensor reaches; an expanded dimension counts once."""
    reached = math.prod(
        size for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step != 0
    )
    return (reached if tensor.numel() else 0) * tensor.element_size()


def _is_alias(node: Any) -> bool:
    """Whether a node of a viewing operator really is a view: `reshape` may copy."""
    if _short_name(node) != "reshape":
        return True
    read = _argument_tensors(node)
    return bool(read) and read[0].is_contiguous()


def _short_name(node: Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    parts = str(node.target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _matrix_flops(name: str, node: Any) -> int | None:
    rule = _MATRIX_RULES.get(name)
    return None if rule is None else rule(node)


def _by_result_and_depth(node: Any) -> int:
    """2 x results x length of the summed dimension of the first matrix."""
    result = _tensors(node.meta.get("val"))[0]
    matrices = _arguments_in_order(node)
    first = matrices[1] if _short_name(node) in ("addmm", "baddbmm", "addmv") else matrices[0]
    return 2 * int(result.numel()) * int(first.shape[-1])


def _convolution(node: Any) -> int:
    result = _tensors(node.meta.get("val"))[0]
    weight = _arguments_in_order(node)[1]
    return 2 * int(result.numel()) * math.prod(int(size) for size in weight.shape[1:])


def _attention(node: Any) -> int:
    query, key, value = _arguments_in_order(node)[:3]
    rows = math.prod(int(size) for size in query.shape[:-1])
    length = int(key.shape[-2])
    return 2 * rows * length * (int(query.shape[-1]) + int(value.shape[-1])) + 5 * rows * length


_MATRIX_RULES: dict[str, Callable[[Any], int]] = {
    "mm": _by_result_and_depth,
    "bmm": _by_result_and_depth,
    "matmul": _by_result_and_depth,
    "linear": _by_result_and_depth,
    "addmm": _by_result_and_depth,
    "baddbmm": _by_result_and_depth,
    "mv": _by_result_and_depth,
    "dot": _by_result_and_depth,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "convolution": _convolution,
    "scaled_dot_product_attention": _attention,
}


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(value) if isinstance(item, torch.Tensor)]


def _argument_tensors(node: Any) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for argument in node.all_input_nodes:
        tensors += _tensors(argument.meta.get("val"))
    return tensors


def _arguments_in_order(node: Any) -> list[torch.Tensor]:
    """Tensors by their place, also where one stands in several places."""
    nodes = [item for item in pytree.tree_leaves(node.args) if isinstance(item, torch.fx.Node)]
    return [tensor for argument in nodes for tensor in _tensors(argument.meta.get("val"))]
