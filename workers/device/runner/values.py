"""Tensors and nested values in the runner: describing, allocating, converting."""

from __future__ import annotations

import collections
import copy
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from workers.protocol.wire import ELEMENT_TYPES, MAX_NDIM, MAX_OUTPUTS, OUTPUT

Descriptor = dict[str, Any]

MAX_GENERATED = 1000
"""Values that are taken from a generator: one that never ends must not fill the memory."""
MAX_DEPTH = 16
MAX_INTEGER_BITS = 64
"""More than torch can take; JSON readers refuse the longest ones."""

_DTYPES = {name: getattr(torch, name) for name in ELEMENT_TYPES}
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES.values())}


class ValueProblem(Exception):
    """A value that the judge does not take; the text says which and what it takes."""


def as_list(made: Any, giver: str) -> list[Any]:
    """What `giver` made: one value, a tuple, a list or a generator of arguments for the model."""
    if made is None:
        raise ValueProblem(f"{giver} returns nothing; let it return the arguments in a list")
    if isinstance(made, (list, tuple)):
        return list(made)
    if not isinstance(made, Iterator):
        return [made]
    values = list(itertools.islice(made, MAX_GENERATED + 1))
    if len(values) > MAX_GENERATED:
        raise ValueProblem(f"{giver} generates more than {MAX_GENERATED:,} values")
    return values


def flatten(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order; dicts in sorted order of their keys."""
    if type(value) is torch.Tensor or isinstance(value, torch.nn.Parameter):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flatten(item)]
    if isinstance(value, dict):
        return [tensor for key in sorted(value, key=str) for tensor in flatten(value[key])]
    raise ValueProblem(
        f"forward returned a {type(value).__name__}; return plain tensors, or tuples, lists or dicts of them"
    )


def describe_outputs(output: Any) -> bytes:
    """Packed OUTPUT records of all tensors of a result."""
    if type(output) is torch.Tensor:  # the usual case, kept short because it runs inside the clock
        return _pack(output)
    tensors = flatten(output)
    if len(tensors) > MAX_OUTPUTS:
        raise ValueProblem(
            f"forward returned {len(tensors)} tensors; at most {MAX_OUTPUTS} are compared"
        )
    return b"".join(_pack(tensor) for tensor in tensors)


def _pack(tensor: torch.Tensor) -> bytes:
    shape, strides = tensor.shape, tensor.stride()
    ndim = len(shape)
    if ndim > MAX_NDIM or tensor.dtype not in _CODES or tensor.layout is not torch.strided:
        raise ValueProblem(
            f"forward returned a {tensor.dtype} tensor with {ndim} dimensions; the judge compares dense "
            f"tensors of up to {MAX_NDIM} dimensions and the types {', '.join(ELEMENT_TYPES)}"
        )
    pad = (0,) * (MAX_NDIM - ndim)
    return OUTPUT.pack(
        tensor.data_ptr(), _reach(tensor), _CODES[tensor.dtype], ndim, *shape, *pad, *strides, *pad
    )


def _reach(tensor: torch.Tensor) -> int:
    """Bytes from the first to behind the last element."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def output_structure(value: Any) -> Any:
    """The nesting of a result with `null` for each tensor, so that two results can be compared."""
    if isinstance(value, torch.Tensor):
        strange = _strangeness(value)
        if strange:
            raise ValueProblem(f"forward returned {strange}")
        return None
    if isinstance(value, (list, tuple)):
        return {"sequence": [output_structure(item) for item in value]}
    if isinstance(value, dict):
        return {"keys": {str(key): output_structure(value[key]) for key in sorted(value, key=str)}}
    raise ValueProblem(
        f"forward returned a {type(value).__name__}; return plain tensors, or tuples, lists or dicts of them"
    )


def _strangeness(tensor: torch.Tensor) -> str:
    """What makes a tensor something else than elements in this process's memory, and what to do; else empty."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {type(tensor).__name__}, a class of its own; use plain tensors"
    if tensor.is_nested:
        return "a nested tensor; pad it, or use a list of tensors"
    if tensor.layout is not torch.strided:
        return f"a sparse tensor ({_name(tensor.layout)}); call .to_dense() on it"
    if tensor.is_quantized:
        return "a quantized tensor; pass its integers and scales as tensors of their own"
    if tensor.device.type != "cpu":
        return f"a tensor on the device {tensor.device}; this problem is judged on the CPU"
    if tensor.is_neg() or tensor.is_conj():
        return "a tensor whose sign is still to be changed; call .resolve_neg() or .resolve_conj()"
    return ""


def _name(kind: Any) -> str:
    return str(kind).removeprefix("torch.")


def describe_tensor(tensor: torch.Tensor, where: str) -> Descriptor:
    """Type, layout and place of a tensor; `where` names what holds it, for the error."""
    strange = _strangeness(tensor)
    if strange:
        raise ValueProblem(f"{where} holds {strange}")
    name = _name(tensor.dtype)
    if name not in _DTYPES:
        raise ValueProblem(
            f"{where} holds a tensor of type {name}; the types are {', '.join(ELEMENT_TYPES)}"
            + ("; pass torch.view_as_real of it" if tensor.is_complex() else "")
        )
    if tensor.dim() > MAX_NDIM:
        raise ValueProblem(
            f"{where} holds a tensor of {tensor.dim()} dimensions; at most {MAX_NDIM} are possible"
        )
    return {
        "dtype": name,
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "address": tensor.data_ptr(),
        "bytes": _reach(tensor),
    }


def describe_inputs(values: list[Any]) -> list[Any]:
    """Inputs as JSON: tensors described under "tensor", containers kept, scalars as they are.

    The items of a dict are named by their position, and `keys` holds its keys, which need not be text.
    """
    return [_describe(value, 0) for value in values]


def _describe(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueProblem(f"get_inputs() is nested more than {MAX_DEPTH} levels deep; flatten it")
    if isinstance(value, torch.Tensor):
        return {"tensor": describe_tensor(value, "get_inputs()")}
    if type(value) in (list, tuple, torch.Size):
        items = [_describe(item, depth + 1) for item in value]
        return {"list": items, "tuple": isinstance(value, tuple)}
    if type(value) in (dict, collections.OrderedDict):
        named = {str(i): _describe(item, depth + 1) for i, item in enumerate(value.values())}
        return {"dict": named, "keys": [to_plain(key, "get_inputs()") for key in value]}
    return {"value": to_plain(value, "get_inputs()")}


def build_inputs(skeleton: list[Any]) -> tuple[list[Any], list[torch.Tensor]]:
    """Allocate the tensors of a description; returns the arguments and the tensors in order."""
    tensors: list[torch.Tensor] = []
    return [_build(item, tensors) for item in skeleton], tensors


def _build(item: dict[str, Any], tensors: list[torch.Tensor]) -> Any:
    if "tensor" in item:
        tensor = allocate(item["tensor"])
        tensors.append(tensor)
        return tensor
    if "list" in item:
        built = [_build(part, tensors) for part in item["list"]]
        return tuple(built) if item["tuple"] else built
    if "dict" in item:
        keys = [_hashable(from_plain(key)) for key in item["keys"]]
        return dict(zip(keys, (_build(p, tensors) for p in item["dict"].values()), strict=True))
    return from_plain(item["value"])


def _hashable(key: Any) -> Any:
    """A key as it was: JSON made a list of a tuple."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def allocate(item: Descriptor) -> torch.Tensor:
    """An uninitialised tensor of the described type and layout."""
    return torch.empty_strided(item["shape"], item["strides"], dtype=_DTYPES[item["dtype"]])


def describe_state(state: dict[str, torch.Tensor]) -> list[Descriptor]:
    """Names and descriptions of parameters and buffers."""
    described = []
    for name, tensor in state.items():
        where = f"the model's state_dict, at {name!r},"
        if not isinstance(tensor, torch.Tensor):
            raise ValueProblem(f"{where} holds a {type(tensor).__name__} instead of a tensor")
        described.append({"name": name, **describe_tensor(tensor.detach(), where)})
    return described


def to_plain(value: Any, where: str, depth: int = 0) -> Any:
    """A value as JSON. Floats outside JSON and dtypes are wrapped; other objects are refused."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise ValueProblem(f"{where} holds an integer of more than {MAX_INTEGER_BITS} bits")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) in (list, tuple, torch.Size):
        if depth > MAX_DEPTH:
            raise ValueProblem(f"{where} is nested more than {MAX_DEPTH} levels deep; flatten it")
        return [to_plain(item, where, depth + 1) for item in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if type(value).__module__ == "numpy":
        raise ValueProblem(
            f"{where} holds a {type(value).__name__} of numpy; make it a tensor or a number of Python"
        )
    raise ValueProblem(
        f"{where} holds a value of type {type(value).__name__}; besides plain tensors, lists, tuples and "
        "dicts of inputs, the judge takes numbers, strings, None and dtypes"
    )


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`."""
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if isinstance(value, dict):
        return getattr(torch, value["dtype"]) if "dtype" in value else float(value["float"])
    return value


def double_model(model: torch.nn.Module | None) -> torch.nn.Module:
    """A copy of the model in double precision."""
    assert model is not None
    return copy.deepcopy(model).double()


def to_double(value: Any) -> Any:
    """Floating-point tensors of a nested value in double precision."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(to_double(item) for item in value)
    if isinstance(value, dict):
        return {key: to_double(item) for key, item in value.items()}
    return value


def called_operators(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The result of a call and the names of torch's operators in it, also those called from C++.

    torch's profiler is used rather than a dispatch mode, whose first use imports for over a second.
    """
    with torch.autograd.profiler.profile(use_kineto=True) as profile:
        result = call()
    return result, sorted({event.name for event in profile.function_events})
