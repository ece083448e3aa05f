"""Writes model_new.py: a module with the reference's constructor and state, whose forward calls kernels."""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass

from agent.codegen.ir import CannotGenerate, Graph, Leaf, Ref
from workers.protocol.codec import Json
from workers.protocol.inspection import Inspection

_MODEL = "Model"

_HEAD = '''"""Written by codegen from the graph of model.py."""

import torch
from torch import nn

import kernel_ops

'''

_DECLARE = '''
def _declare(module, name, tensor, parameter):
    """Put a tensor under a dotted name, so that the state dict has the reference's keys."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if parameter:
        module.register_parameter(leaf, nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
    else:
        module.register_buffer(leaf, tensor)

'''


@dataclass(frozen=True)
class KernelCall:
    """One call in forward, by names of leaves and steps."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def model_file(
    graph: Graph, inspection: Inspection, model_source: str, calls: list[KernelCall]
) -> str:
    """The text of model_new.py."""
    state = _state(inspection)
    brought = [leaf for leaf in graph.leaves.values() if leaf.value is not None]
    _check_reachable(graph, state)
    lines = [_HEAD, _DECLARE if state else "", "\nclass ModelNew(nn.Module):\n"]
    lines.append(f"    def __init__({constructor_arguments(model_source)}):\n")
    lines.append("        super().__init__()\n")
    for entry in state:
        shape = tuple(entry.shape)
        made = f"torch.zeros({shape!r}, dtype=torch.{entry.dtype})"
        parameter = entry.kind == "parameter"
        lines.append(f"        _declare(self, {entry.name!r}, {made}, {parameter})\n")
    for leaf in brought:
        lines.append(
            f"        self.register_buffer({_own_name(leaf)!r}, {_tensor(leaf)}, persistent=False)\n"
        )
    lines.append("\n")
    lines += _forward(graph, inspection, calls)
    return "".join(lines)


@dataclass(frozen=True)
class _Entry:
    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]


def _state(inspection: Inspection) -> list[_Entry]:
    listed = inspection.extra.get("state")
    if not isinstance(listed, list):
        raise CannotGenerate("codegen needs an inspection that lists the model's state.")
    entries = []
    for item in listed:
        if not isinstance(item, dict) or not isinstance(item.get("shape"), list):
            raise CannotGenerate("codegen cannot read the inspection's list of the model's state.")
        sizes = item["shape"]
        shape = (
            tuple(int(n) for n in sizes if isinstance(n, int)) if isinstance(sizes, list) else ()
        )
        entries.append(_Entry(str(item["name"]), str(item["kind"]), str(item["dtype"]), shape))
    return entries


def _check_reachable(graph: Graph, state: list[_Entry]) -> None:
    """Constants must have come with their elements; they are in no state dict."""
    saved = {entry.name for entry in state}
    for leaf in graph.leaves.values():
        if leaf.kind != "input" and leaf.value is None and leaf.source not in saved:
            raise CannotGenerate(
                f"codegen cannot rebuild {leaf.source}: it is not in the state dict and too large to "
                "be written down; register it as a persistent buffer."
            )


def constructor_arguments(model_source: str) -> str:
    """`self` and the arguments of `Model.__init__`; defaults that are no plain values become None."""
    for node in ast.parse(model_source).body:
        if isinstance(node, ast.ClassDef) and node.name == _MODEL:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    return _plain(item.args)
    return "self"


def _plain(arguments: ast.arguments) -> str:
    nothing = ast.Constant(None)
    first = (*arguments.posonlyargs, *arguments.args)[:1]
    for own in first:
        own.arg = "self"
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            extra.annotation = None
    arguments.defaults = [d if _is_literal(d) else nothing for d in arguments.defaults]
    arguments.kw_defaults = [
        d if d is None or _is_literal(d) else nothing for d in arguments.kw_defaults
    ]
    return ast.unparse(arguments)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _forward(graph: Graph, inspection: Inspection, calls: list[KernelCall]) -> list[str]:
    arguments = [
        name if _usable(name) else f"input_{i}" for i, name in enumerate(inspection.input_names)
    ]
    renamed = dict(zip(inspection.input_names, arguments, strict=True))
    names: dict[str, str] = {}
    lines = [f"    def forward({', '.join(['self', *arguments])}):\n"]
    for leaf in graph.leaves.values():
        text = renamed.get(leaf.source, leaf.source) if leaf.kind == "input" else _attribute(leaf)
        if leaf.copied:
            # The kernels read tensors without gaps; this one arrives with some.
            text = f"{text}.contiguous()"
        names[leaf.ref.name] = text
    taken = set(arguments)
    for call in calls:
        targets = []
        for output in call.outputs:
            name = f"t_{output}"
            while name in taken:
                name += "_"
            taken.add(name)
            names[output] = name
            targets.append(name)
        given = ", ".join(names[item] for item in call.inputs)
        lines.append(f"        {', '.join(targets)} = kernel_ops.{call.op}({given})\n")
    shapes = {leaf.ref.name: leaf.ref for leaf in graph.leaves.values()}
    shapes |= {step.name: step.ref() for step in graph.steps}
    results = [_seen(ref, shapes[ref.name], names[ref.name]) for ref in graph.outputs]
    lines.append(f"        return {_packed(results, graph)}\n")
    return lines


def _seen(ref: Ref, stored: Ref, name: str) -> str:
    """A result as forward returns it: as it lies in memory, or through a view."""
    if ref == stored:
        return name
    if ref.plain and ref.numel == stored.numel:
        return f"{name}.view({ref.shape!r})"
    return f"{name}.as_strided({ref.shape!r}, {ref.strides!r}, {ref.offset})"


def _packed(results: list[str], graph: Graph) -> str:
    if graph.structure == "dict":
        pairs = zip(graph.keys, results, strict=True)
        return "{" + ", ".join(f"{key!r}: {value}" for key, value in pairs) + "}"
    if graph.structure == "list":
        return f"[{', '.join(results)}]"
    if graph.structure == "tuple":
        return f"({', '.join(results)},)"
    return results[0]


def _usable(name: str) -> bool:
    return (
        name.isidentifier() and not keyword.iskeyword(name) and name not in ("self", "kernel_ops")
    )


def _own_name(leaf: Leaf) -> str:
    return "_constant_" + re.sub(r"\W", "_", leaf.source)


def _attribute(leaf: Leaf) -> str:
    if leaf.value is not None:
        return f"self.{_own_name(leaf)}"
    text = "self"
    for part in leaf.source.split("."):
        text = f"{text}.{part}" if _usable(part) else f"getattr({text}, {part!r})"
    return text


def _tensor(leaf: Leaf) -> str:
    items = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    numbers = ", ".join(_number(item) for item in items)
    return f"torch.tensor([{numbers}], dtype=torch.{leaf.ref.dtype}).view({leaf.ref.shape!r})"


def _number(item: Json) -> str:
    if isinstance(item, dict):
        return f"float({str(item.get('float', 'nan'))!r})"
    return repr(item)
