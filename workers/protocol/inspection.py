"""What `inspect` tells about a problem: its operators, shapes, work and eager time."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.protocol.codec import Json


@dataclass(frozen=True)
class TensorInfo:
    """A tensor's type. `strides` counts elements."""

    shape: tuple[int, ...]
    dtype: str
    """`float32`, as in torch, without the prefix."""
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class GraphValue:
    """Something that enters the graph: an input, a parameter, a buffer or a lifted constant."""

    name: str
    """Name of the node that stands for it."""
    kind: str
    """`input`, `parameter`, `buffer` or `constant`."""
    source: str
    """Argument name of `forward` for an input, dotted name for the others."""
    tensor: TensorInfo | None = None
    value: Json = None
    """For inputs that are no tensors."""


@dataclass(frozen=True)
class GraphNode:
    """One call of an ATen operator. Arguments that are nodes are written {"node": NAME}."""

    name: str
    target: str
    """Such as `aten.add.Tensor`."""
    args: tuple[Json, ...]
    kwargs: dict[str, Json]
    outputs: tuple[TensorInfo, ...]
    flops: int
    """Floating-point operations by the textbook count; 0 for moves and views."""
    bytes_read: int
    bytes_written: int
    location: str = ""
    """File and line in the uploaded model where known, such as `model.py:14`."""


@dataclass(frozen=True)
class Mutant:
    """A wrong answer that was put to the problem's comparison."""

    name: str
    """`zeros`, `half precision (float16)`, `without fc.bias` …"""
    caught: bool
    """False where the comparison let it pass: what a lazy kernel could do unnoticed."""


@dataclass(frozen=True)
class Inspection:
    """The graph of one call of the reference's `forward`, and what it costs."""

    values: tuple[GraphValue, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[Json, ...]
    """Structure of the result; nodes as {"node": NAME}."""
    output_structure: str
    """`tensor`, `tuple`, `list` or `dict`."""
    flops: int
    bytes_moved: int
    """Bytes of inputs, parameters and outputs: what any implementation has to touch once."""
    eager_ms: float | None = None
    floor_ms: float | None = None
    """bytes_moved over the measured copy bandwidth of the device."""
    torch_version: str = ""
    constructor: tuple[Json, ...] = ()
    """`get_init_inputs()`, where JSON can hold it."""
    input_names: tuple[str, ...] = ()
    """Argument names of `forward`, in order."""
    notes: tuple[str, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    """Wrong answers that were tried; empty in inspections from before they were."""
    version: int = 1
    extra: dict[str, Json] = field(default_factory=dict)
