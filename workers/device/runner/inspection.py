"""Reads a model's graph: operators, shapes, work, bytes. Runs inside the reference's runner.

The graph is captured by `torch.export` (non-strict: the model's Python runs as it is, on fake tensors).
Composite operators such as `aten.softmax.int` or `aten.layer_norm.default` stay whole. Where `forward`
works in place, the graph is rewritten without in-place operators, which also takes composites apart.

Arguments are JSON, with these wrappers for what JSON cannot hold::

    {"node": "add_1"}            the result of another node, or a value that enters the graph
    {"float": "-inf"}            "inf", "-inf" or "nan"
    {"dtype": "float32"}         {"device": "cpu"}   {"layout": "strided"}
    {"memory_format": "contiguous_format"}           {"complex": [0.0, 1.0]}

A node with several results is followed by nodes with target `getitem` and arguments ({"node": NAME}, K).
"""

from __future__ import annotations

import contextlib
import inspect as python_inspect
import math
import operator
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from workers.device.runner.counting import node_bytes, node_flops, tensor_bytes
from workers.protocol.codec import Json, to_data
from workers.protocol.inspection import GraphNode, GraphValue, Inspection, TensorInfo

MAX_CONSTANT_ELEMENTS = 1024
MAX_NODES = 2000

_KINDS = {
    "PARAMETER": "parameter",
    "BUFFER": "buffer",
    "CONSTANT_TENSOR": "constant",
    "USER_INPUT": "input",
}


class InspectionError(Exception):
    """The model's graph cannot be read; the text is one sentence for people."""


def inspect_model(
    model: nn.Module, inputs: Sequence[object], *, source_path: str
) -> dict[str, Json]:
    """Describe one call of `model` as data of `workers.protocol.inspection.Inspection`.

    Fills all but `eager_ms`, `floor_ms` and `constructor`. `source_path` is the file from which the
    model was loaded: its lines are named in locations. `extra` holds `state` (name, shape, dtype and
    kind of every entry of the state dict), `unsaved` (buffers that are not in it) and, for results that
    are dicts, `output_keys`. Small constants and unsaved buffers carry their values.

    Raises `InspectionError` where the graph cannot be captured or counted.
    """
    with _told():
        return _described(_export(model, inputs), model, inputs, source_path)


def _described(
    program: Any, model: nn.Module, inputs: Sequence[object], source_path: str
) -> dict[str, Json]:
    graph = program.graph
    if len(graph.nodes) > MAX_NODES:
        raise InspectionError(
            f"The graph of forward has {len(graph.nodes):,} nodes and at most {MAX_NODES:,} are possible: use "
            "fewer operators on larger tensors."
        )
    names = _forward_names(model, len(inputs))
    values = _values(program, model, names)
    calls = [node for node in graph.nodes if node.op == "call_function"]
    nodes = tuple(_graph_node(node, Path(source_path)) for node in calls)
    outputs, structure, keys = _outputs(program)
    extra = _state(model)
    if keys:
        extra["output_keys"] = list(keys)
    report = Inspection(
        values=values,
        nodes=nodes,
        outputs=outputs,
        output_structure=structure,
        flops=sum(node.flops for node in nodes),
        bytes_moved=_bytes_moved(graph),
        torch_version=str(torch.__version__),
        input_names=names,
        notes=_notes(program, calls),
        extra=extra,
    )
    data = to_data(report)
    if not isinstance(data, dict):  # a dataclass always becomes an object
        raise TypeError("an inspection is an object")
    return data


def _export(model: nn.Module, inputs: Sequence[object]) -> Any:
    with torch.no_grad():
        program = torch.export.export(model, tuple(_distinct(inputs)), strict=False)
        if any(_works_in_place(node) for node in program.graph.nodes):
            program = program.run_decompositions({})
    return program


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Whatever the model or the exporter raises is told in one sentence, not passed on."""
    try:
        yield
    except InspectionError:
        raise
    except Exception as error:
        reason = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
        if "data-dependent" in reason or "DataDependent" in type(error).__name__:
            raise InspectionError(
                "The flow or a shape in forward depends on the contents of a tensor, so it has no fixed "
                "graph: let it depend on shapes and numbers alone."
            ) from error
        first = re.split(r"(?<=[.!?])\s", reason)[0][:300].rstrip(".")
        raise InspectionError(f"The graph of forward cannot be captured: {first}.") from error


def _distinct(inputs: Sequence[object]) -> list[object]:
    """Inputs as they are, but no tensor twice: the exporter would take both for one argument."""
    seen: set[int] = set()
    result = []
    for item in inputs:
        if isinstance(item, torch.Tensor):
            if item.data_ptr() in seen:
                item = item.clone()
            seen.add(item.data_ptr())
        result.append(item)
    return result


def _works_in_place(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def _forward_names(model: nn.Module, count: int) -> tuple[str, ...]:
    parameters = list(python_inspect.signature(model.forward).parameters.values())
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names += [f"input_{i}" for i in range(len(names), count)]
    return tuple(names[:count])


def _values(program: Any, model: nn.Module, names: Sequence[str]) -> tuple[GraphValue, ...]:
    by_name = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    unsaved = set(_unsaved_buffers(model))
    values = []
    position = 0
    for spec in program.graph_signature.input_specs:
        kind = _KINDS.get(spec.kind.name)
        if kind is None:
            raise InspectionError(
                f"The model holds a {spec.kind.name.lower()}, which has no kernel."
            )
        name = spec.arg.name
        tensor = by_name[name].meta.get("val") if name in by_name else None
        value: Json = None
        if kind == "input":
            source = names[position] if position < len(names) else name
            position += 1
            value = None if isinstance(tensor, torch.Tensor) else _json(tensor)
        else:
            source = str(spec.target)
        if kind == "constant":
            value = _contents(program.constants.get(source))
        elif kind == "buffer" and source in unsaved:
            value = _contents(dict(model.named_buffers()).get(source))
        info = _tensor_info(tensor) if isinstance(tensor, torch.Tensor) else None
        values.append(GraphValue(name, kind, source, info, value))
    return tuple(values)


def _contents(tensor: Any) -> Json:
    """The elements of a small constant, flat; None for a large one."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() > MAX_CONSTANT_ELEMENTS:
        return None
    return [_json(item) for item in tensor.detach().reshape(-1).tolist()]


def _unsaved_buffers(model: nn.Module) -> list[str]:
    saved = model.state_dict().keys()
    return [name for name, _ in model.named_buffers(remove_duplicate=False) if name not in saved]


def _state(model: nn.Module) -> dict[str, Json]:
    parameters = dict(model.named_parameters(remove_duplicate=False))
    state: list[Json] = []
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor):
            raise InspectionError(f"The state dict holds {name!r}, which is no tensor.")
        kind = "parameter" if name in parameters else "buffer"
        entry: dict[str, Json] = {"name": name, "kind": kind, "dtype": _dtype(tensor.dtype)}
        entry["shape"] = [int(size) for size in tensor.shape]
        state.append(entry)
    return {"state": state, "unsaved": [*_unsaved_buffers(model)]}


def _graph_node(node: Any, source: Path) -> GraphNode:
    read, written = node_bytes(node)
    target = "getitem" if node.target is operator.getitem else str(node.target)
    return GraphNode(
        name=node.name,
        target=target,
        args=tuple(_json(item) for item in node.args),
        kwargs={key: _json(item) for key, item in node.kwargs.items()},
        outputs=tuple(_tensor_info(t) for t in _result_tensors(node)),
        flops=node_flops(node) or 0,
        bytes_read=read,
        bytes_written=written,
        location=_location(node, source),
    )


def _result_tensors(node: Any) -> list[torch.Tensor]:
    flat = pytree.tree_leaves(node.meta.get("val"))
    return [item for item in flat if isinstance(item, torch.Tensor)]


def _location(node: Any, source: Path) -> str:
    """The innermost line of the model's own file; layers of torch called from there do not count."""
    trace = node.meta.get("stack_trace") or ""
    lines = [
        int(line)
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace)
        if Path(file) == source or Path(file).resolve() == source.resolve()
    ]
    return f"{source.name}:{lines[-1]}" if lines else ""


def _outputs(program: Any) -> tuple[tuple[Json, ...], str, tuple[str, ...]]:
    """The user's outputs, the kind of their container and, for a dict, its keys."""
    leaves = []
    for spec in program.graph_signature.output_specs:
        if spec.kind.name == "USER_OUTPUT":
            name = getattr(spec.arg, "name", None)
            leaves.append(
                {"node": name} if name and not hasattr(spec.arg, "value") else spec.arg.value
            )
    result = pytree.tree_unflatten(leaves, program.call_spec.out_spec)
    if isinstance(result, dict) and not (set(result) == {"node"} and len(leaves) == 1):
        return tuple(_flat(list(result.values()))), "dict", tuple(str(key) for key in result)
    if isinstance(result, (tuple, list)):
        return tuple(_flat(result)), "tuple" if isinstance(result, tuple) else "list", ()
    return (result,), "tensor", ()


def _flat(items: Sequence[Any]) -> list[Json]:
    for item in items:
        if isinstance(item, (tuple, list)) or (isinstance(item, dict) and "node" not in item):
            raise InspectionError("forward returns containers in containers; return a flat one.")
    return list(items)


def _bytes_moved(graph: Any) -> int:
    """Bytes of everything that enters and is used, and of everything that leaves."""
    entering = [n for n in graph.nodes if n.op == "placeholder" and n.users]
    leaving = {item for n in graph.nodes if n.op == "output" for item in n.all_input_nodes}
    tensors = [t for node in {*entering, *leaving} for t in _result_tensors(node)]
    return sum(tensor_bytes(tensor) for tensor in tensors)


def _notes(program: Any, calls: Sequence[Any]) -> tuple[str, ...]:
    notes = [
        f"forward changes {spec.target}"
        for spec in program.graph_signature.output_specs
        if spec.kind.name.endswith("_MUTATION")
    ]
    unknown = sorted({str(node.target) for node in calls if node_flops(node) is None})
    notes += [f"no work is counted for {target}" for target in unknown]
    return tuple(notes)


def _tensor_info(tensor: torch.Tensor) -> TensorInfo:
    sizes = (*tensor.shape, *tensor.stride())
    if not all(isinstance(size, int) for size in sizes):
        raise InspectionError("A shape in forward depends on the contents of a tensor.")
    return TensorInfo(
        shape=tuple(int(size) for size in tensor.shape),
        dtype=_dtype(tensor.dtype),
        strides=tuple(int(step) for step in tensor.stride()),
    )


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _json(item: Any) -> Json:
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if isinstance(item, float):
        return item if math.isfinite(item) else {"float": str(item)}
    if isinstance(item, (tuple, list)):
        return [_json(part) for part in item]
    return _wrapped(item)


def _wrapped(item: Any) -> Json:
    if isinstance(item, torch.fx.Node):
        return {"node": item.name}
    if isinstance(item, complex):
        return {"complex": [item.real, item.imag]}
    for kind, word in (
        (torch.dtype, "dtype"),
        (torch.device, "device"),
        (torch.layout, "layout"),
        (torch.memory_format, "memory_format"),
    ):
        if isinstance(item, kind):
            return {word: str(item).removeprefix("torch.")}
    raise InspectionError(f"An argument of type {type(item).__name__} in forward cannot be shown.")
