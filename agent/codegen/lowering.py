"""From the inspected graph to steps: what every rule needs. The rules are in `rules_*.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.codegen.ir import (
    FLOATS,
    SUPPORTED_DTYPES,
    Arg,
    CannotGenerate,
    Const,
    Graph,
    Leaf,
    Ref,
    Shape,
    Step,
    contiguous_strides,
    is_contiguous,
    reshape_strides,
)
from workers.protocol.codec import Json
from workers.protocol.inspection import GraphNode, GraphValue, Inspection, TensorInfo

Value = Arg | list["Value"] | str | None


@dataclass(frozen=True)
class Call:
    """One node of the graph with its arguments looked up."""

    node: GraphNode
    args: tuple[Value, ...]
    kwargs: dict[str, Value]

    def get(self, position: int, name: str, default: Value = None) -> Value:
        """An argument by place or name."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def arg(self, position: int, name: str = "") -> Arg:
        """A tensor or a number; refuses anything else."""
        value = self.get(position, name)
        if isinstance(value, (Ref, Const)):
            return value
        raise self.refusal(f"with argument {position + 1}")

    def tensor(self, position: int, name: str = "") -> Ref:
        """A tensor; refuses anything else."""
        value = self.get(position, name)
        if isinstance(value, Ref):
            return value
        raise self.refusal(f"with argument {position + 1}")

    def number(self, position: int, name: str, default: float | None = None) -> float:
        """A number."""
        value = self.get(position, name)
        if value is None and default is not None:
            return default
        if isinstance(value, Const):
            return float(value.value)
        raise self.refusal(f"with {name} as a tensor")

    def integers(self, position: int, name: str) -> list[int] | None:
        """A list of integers; a single one counts as a list; None where it is missing."""
        value = self.get(position, name)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, Const) for item in items):
            raise self.refusal(f"with {name} as a tensor")
        return [int(item.value) for item in items if isinstance(item, Const)]

    def flag(self, position: int, name: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.get(position, name)
        return bool(value.value) if isinstance(value, Const) else default

    @property
    def dtype(self) -> str:
        """Element type of the first result."""
        return self.node.outputs[0].dtype

    @property
    def shape(self) -> Shape:
        """Shape of the first result."""
        return self.node.outputs[0].shape

    def refusal(self, detail: str = "") -> CannotGenerate:
        """The sentence that ends a session."""
        place = f" ({self.node.location})" if self.node.location else ""
        extra = f" {detail}" if detail else ""
        return CannotGenerate(
            f"codegen cannot write a kernel for {self.node.target}{extra} yet{place}."
        )


Rule = Callable[["Lowering", Call], "Value"]


class Lowering:
    """Collects steps while the rules run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._call: Call | None = None

    def map(
        self, op: str, *args: Arg, dtype: str, compute: str = "", shape: Shape | None = None
    ) -> Ref:
        """A step with one result per element; its shape is that of the arguments broadcast."""
        found = (
            shape
            if shape is not None
            else _broadcast([a.shape for a in args if isinstance(a, Ref)])
        )
        return self._add(op, args, found, dtype, compute or dtype, 1)

    def reduce(self, op: str, arg: Arg, count: int, dtype: str) -> Ref:
        """A reduction over the last `count` dimensions, which stay with size 1."""
        if not isinstance(arg, Ref):
            raise TypeError("only tensors are reduced")
        kept = len(arg.shape) - count
        shape = (*arg.shape[:kept], *(1 for _ in range(count)))
        return self._add(op, (arg,), shape, dtype, dtype, math.prod(arg.shape[kept:]))

    def view(self, ref: Ref, shape: Shape) -> Ref:
        """The same elements under another shape; copied where the strides do not allow it."""
        strides = reshape_strides(ref, shape)
        if strides is None:
            ref = self.map("copy", ref, dtype=ref.dtype)
            strides = contiguous_strides(shape)
        return Ref(ref.name, shape, strides, ref.dtype, ref.offset)

    def cast(self, arg: Arg, dtype: str) -> Arg:
        """The argument in another element type."""
        if isinstance(arg, Const) or arg.dtype == dtype:
            return arg
        return self.map("copy", arg, dtype=dtype)

    def run(self, rule: Rule, call: Call) -> Value:
        """Lower one node."""
        self._call = call
        for made in call.node.outputs:
            check_dtype(made, call)
        return rule(self, call)

    def _add(
        self, op: str, args: Sequence[Arg], shape: Shape, dtype: str, compute: str, extent: int
    ) -> Ref:
        if self._call is None:
            raise RuntimeError("steps are made by rules only")
        node = self._call.node
        name = f"v{len(self.steps)}"
        step = Step(
            name, op, tuple(args), shape, dtype, compute, extent, node.target, node.location
        )
        self.steps.append(step)
        return step.ref()


def lower(inspection: Inspection, rules: dict[str, Rule]) -> Graph:
    """Turn an inspected graph into steps; raises `CannotGenerate` with the sentence for people."""
    values: dict[str, Value] = {}
    leaves: dict[str, Leaf] = {}
    unsaved = inspection.extra.get("unsaved")
    missing = {str(name) for name in unsaved} if isinstance(unsaved, list) else set()
    for number, entering in enumerate(inspection.values):
        if entering.tensor is None:
            values[entering.name] = read_json(entering.value, {})
            continue
        leaf = _leaf(entering, f"a{number}", missing)
        values[entering.name] = leaf.ref
        leaves[leaf.ref.name] = leaf
    for note in inspection.notes:
        if note.startswith("forward changes "):
            raise CannotGenerate(f"codegen cannot write kernels for a model whose {note}.")
    lowering = Lowering()
    for node in inspection.nodes:
        call = Call(
            node,
            tuple(read_json(item, values) for item in node.args),
            {key: read_json(item, values) for key, item in node.kwargs.items()},
        )
        rule = rules.get(node.target)
        if rule is None:
            raise call.refusal()
        values[node.name] = lowering.run(rule, call)
    outputs = tuple(_output(read_json(item, values)) for item in inspection.outputs)
    keys = inspection.extra.get("output_keys")
    graph = Graph(
        leaves,
        tuple(lowering.steps),
        outputs,
        inspection.output_structure,
        tuple(str(key) for key in keys) if isinstance(keys, list) else (),
    )
    return _without_dead(graph)


def read_json(item: Json, values: dict[str, Value]) -> Value:
    """An argument of the inspection as value; see workers/device/runner/inspection.py for its forms."""
    if isinstance(item, dict):
        if "node" in item:
            return values[str(item["node"])]
        if "float" in item:
            return Const(float(str(item["float"])))
        return str(next(iter(item.values()), ""))
    if isinstance(item, list):
        return [read_json(part, values) for part in item]
    if isinstance(item, (bool, int, float)):
        return Const(item)
    return item


def check_dtype(info: TensorInfo, call: Call) -> None:
    """Refuse element types that no generator writes."""
    if info.dtype not in SUPPORTED_DTYPES:
        raise call.refusal(f"in {info.dtype}")


def promote(args: Sequence[Arg]) -> str:
    """The element type in which torch combines these arguments, for those that generators know."""
    refs = [arg for arg in args if isinstance(arg, Ref)]
    ranked = [ref for ref in refs if ref.shape] or refs
    order = {"bool": 0, "int32": 1, "int64": 2, "float32": 3, "float64": 4}
    best = max((ref.dtype for ref in ranked), key=lambda d: order.get(d, 0), default="float32")
    floats = [ref.dtype for ref in refs if ref.dtype in FLOATS]
    if best not in FLOATS and floats:
        return max(floats, key=lambda d: order[d])
    constant = [arg.value for arg in args if isinstance(arg, Const)]
    if best not in FLOATS and any(isinstance(value, float) for value in constant):
        return "float32"
    if best == "bool" and any(type(value) is int for value in constant):
        return "int64"
    return best


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                result[axis] = size
    return tuple(result)


def _leaf(entering: GraphValue, name: str, unsaved: set[str]) -> Leaf:
    tensor = entering.tensor
    if tensor is None:
        raise TypeError("only tensors are leaves")
    contiguous = not tensor.strides or is_contiguous(tensor.shape, tensor.strides)
    ref = Ref(name, tensor.shape, contiguous_strides(tensor.shape), tensor.dtype)
    brought = entering.kind == "constant" or entering.source in unsaved
    return Leaf(
        name,
        entering.kind,
        entering.source,
        ref,
        entering.value if brought else None,
        copied=not contiguous,
    )


def _output(value: Value) -> Ref:
    if isinstance(value, Ref):
        return value
    raise CannotGenerate("codegen cannot return something that is no tensor.")


def _without_dead(graph: Graph) -> Graph:
    """Drop steps and leaves on which no output depends, and refuse leaves that cannot be had."""
    needed = {ref.name for ref in graph.outputs}
    for step in reversed(graph.steps):
        if step.name in needed:
            needed |= {arg.name for arg in step.args if isinstance(arg, Ref)}
    steps = tuple(step for step in graph.steps if step.name in needed)
    leaves = {name: leaf for name, leaf in graph.leaves.items() if name in needed}
    for leaf in leaves.values():
        if leaf.ref.dtype not in SUPPORTED_DTYPES:
            raise CannotGenerate(f"codegen cannot read {leaf.source}, which is {leaf.ref.dtype}.")
    return Graph(leaves, steps, graph.outputs, graph.structure, graph.keys)
