"""The author's own small language for graphs: leaves in memory, maps over elements, sums over rows.

A `Ref` names memory or the result of a step, seen through shape, strides and offset (in elements), so
views cost nothing. Every step is a map (one result per element of its shape, arguments broadcast as in
numpy) or a reduction over the last elements of each row of its argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workers.protocol.codec import Json

Shape = tuple[int, ...]

FLOATS = ("float32", "float64")
SUPPORTED_DTYPES = (*FLOATS, "int64", "int32", "bool")


class CannotGenerate(Exception):
    """The graph holds something that no generator writes; the text is the sentence for people."""


@dataclass(frozen=True)
class Const:
    """A number that is known while the kernel is written."""

    value: float | int | bool


@dataclass(frozen=True)
class Ref:
    """A tensor: a leaf or a step's result, seen through a view."""

    name: str
    shape: Shape
    strides: Shape
    dtype: str
    offset: int = 0

    @property
    def numel(self) -> int:
        """Elements of the view."""
        return math.prod(self.shape)

    @property
    def plain(self) -> bool:
        """Whether the view walks through memory from the start without gaps or repeats."""
        return self.offset == 0 and is_contiguous(self.shape, self.strides)


Arg = Ref | Const


@dataclass(frozen=True)
class Leaf:
    """Memory that enters the graph."""

    name: str
    kind: str
    """`input`, `parameter`, `buffer` or `constant`."""
    source: str
    """Argument name or dotted name."""
    ref: Ref
    """How it lies in memory; always contiguous, see `copied`."""
    value: Json = None
    """Elements, flat, where `forward` must bring them itself."""
    copied: bool = False
    """True where the caller's tensor has gaps: `forward` calls `contiguous` on it."""


@dataclass(frozen=True)
class Step:
    """One operation. A reduction's `extent` counts the elements that fall into one result; 1 for maps."""

    name: str
    op: str
    args: tuple[Arg, ...]
    shape: Shape
    dtype: str
    compute: str
    """Element type in which the operation is carried out; arguments are cast to it."""
    extent: int
    target: str
    """The operator of the graph from which this step came."""
    location: str

    @property
    def reduces(self) -> bool:
        """Whether this is a reduction."""
        return self.op in REDUCTIONS

    @property
    def numel(self) -> int:
        """Elements of the result."""
        return math.prod(self.shape)

    @property
    def domain(self) -> Shape:
        """The shape over which the step loops."""
        if self.reduces and isinstance(self.args[0], Ref):
            return self.args[0].shape
        return self.shape

    def ref(self) -> Ref:
        """The whole result."""
        return Ref(self.name, self.shape, contiguous_strides(self.shape), self.dtype)


REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min"})


@dataclass(frozen=True)
class Graph:
    """What has to be computed."""

    leaves: dict[str, Leaf]
    steps: tuple[Step, ...]
    outputs: tuple[Ref, ...]
    structure: str
    keys: tuple[str, ...]


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a tensor without gaps."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether these strides have no gaps; strides of dimensions of size 1 do not matter."""
    wanted = contiguous_strides(shape)
    return all(
        size == 1 or have == want for size, have, want in zip(shape, strides, wanted, strict=True)
    )


def reshape_strides(ref: Ref, shape: Shape) -> Shape | None:
    """Strides of the same memory under another shape, or None where that needs a copy."""
    if math.prod(shape) != ref.numel:
        return None
    pairs = merge_dims([(n, s) for n, s in zip(ref.shape, ref.strides, strict=True) if n != 1])
    strides: list[int] = []
    while_left = list(reversed(pairs))
    extent, step = while_left.pop(0) if while_left else (1, 1)
    for size in reversed(shape):
        if size == 1:
            strides.append(step)
            continue
        if extent == 1 and while_left:
            extent, step = while_left.pop(0)
        if extent % size:
            return None
        strides.append(step)
        extent //= size
        step *= size
    return tuple(reversed(strides))


def merge_dims(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbouring (extent, stride) pairs, outer first, that one loop can walk."""
    merged: list[tuple[int, int]] = []
    for extent, stride in pairs:
        if extent == 1:
            continue
        if merged:
            outer, step = merged[-1]
            if step == stride * extent:
                merged[-1] = (outer * extent, stride)
                continue
        merged.append((extent, stride))
    return merged


def broadcast_strides(ref: Ref, shape: Shape) -> Shape:
    """Strides of `ref` stretched to `shape` by numpy's rules: 0 along stretched dimensions."""
    missing = len(shape) - len(ref.shape)
    strides = [0] * missing
    for size, step, wanted in zip(ref.shape, ref.strides, shape[missing:], strict=True):
        strides.append(step if size == wanted and size != 1 else 0)
    return tuple(strides)
