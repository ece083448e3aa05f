"""Cuts a graph into kernels.

A kernel loops over `total` elements. Where it reduces, each row of `extent` neighbouring elements gives one
result per reduction, and steps of that smaller size ("row steps") run once per row. Steps join the earliest
kernel that comes behind all they need, shares memory with them and can walk all its operands with one nest of
loops; otherwise they begin a new kernel. What a kernel needs of an earlier one goes through memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from agent.codegen.ir import (
    Arg,
    CannotGenerate,
    Graph,
    Ref,
    Shape,
    Step,
    broadcast_strides,
    merge_dims,
)
from agent.codegen.operations import COSTLY

MAX_LOOPS = 6


@dataclass
class Kernel:
    """Steps that run in one nest of loops."""

    total: int
    extent: int = 1
    """Elements of a row; 1 while nothing is reduced."""
    steps: list[Step] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    """Names of the row steps, reductions among them."""
    cuts: set[int] = field(default_factory=lambda: {1})
    """Sizes of inner blocks at which some operand's stride changes."""
    stored: tuple[str, ...] = ()
    """Results that go to memory."""

    @property
    def names(self) -> set[str]:
        """Names of all steps."""
        return {step.name for step in self.steps}

    @property
    def memory(self) -> list[str]:
        """Names of what is read from memory, in the order of first use."""
        own = self.names
        used = [
            a.name for s in self.steps for a in s.args if isinstance(a, Ref) and a.name not in own
        ]
        return list(dict.fromkeys(used))

    @property
    def loops(self) -> tuple[int, ...]:
        """Extents of the loops, outer first; those behind `row_loops` walk through a row."""
        cuts = sorted(self.cuts | {1, self.extent, self.total})
        return tuple(reversed([b // a for a, b in itertools.pairwise(cuts)])) or (1,)

    @property
    def row_loops(self) -> int:
        """How many of the loops walk over rows."""
        if self.extent == 1:
            return len(self.loops) - 1
        cuts = sorted(self.cuts | {1, self.extent, self.total})
        return len(cuts) - 1 - cuts.index(self.extent)

    def operand(self, ref: Ref, step: Step) -> tuple[int, ...]:
        """The strides with which a step reads memory, one per loop."""
        on_rows = step.name in self.rows and not step.reduces
        shape = step.shape if on_rows else step.domain
        pairs = _pairs(ref, shape)
        if on_rows:
            pairs.append((self.extent, 0))
        return _strides_per_loop(pairs, self.loops)


def plan(graph: Graph) -> list[Kernel]:
    """The kernels in the order in which they run; raises `CannotGenerate`."""
    if not graph.steps:
        raise CannotGenerate("codegen found nothing to compute: forward returns its inputs.")
    if any(math.prod(step.domain) == 0 for step in graph.steps):
        raise CannotGenerate("codegen cannot write kernels for empty tensors.")
    graph = replace(graph, steps=tuple(_inlined(graph)))
    fates = _fates(graph)
    kernels: list[Kernel] = []
    home: dict[str, int] = {}
    for step in graph.steps:
        home[step.name] = _place(step, kernels, home, fates)
    wanted = {ref.name for ref in graph.outputs}
    for kernel in kernels:
        wanted |= set(kernel.memory)
    for kernel in kernels:
        kernel.stored = tuple(step.name for step in kernel.steps if step.name in wanted)
    return kernels


def _place(
    step: Step, kernels: list[Kernel], home: dict[str, int], fates: dict[str, set[str]]
) -> int:
    first = max(
        (home[a.name] for a in step.args if isinstance(a, Ref) and a.name in home), default=0
    )
    for index in range(first, len(kernels)):
        grown = _joined(kernels[index], step, fates)
        if grown is not None:
            kernels[index] = grown
            return index
    fresh = _joined(Kernel(total=math.prod(step.domain)), step, fates)
    if fresh is None:
        place = f" ({step.location})" if step.location else ""
        raise CannotGenerate(f"codegen cannot walk the operands of {step.target} in loops{place}.")
    kernels.append(fresh)
    return len(kernels) - 1


def _joined(kernel: Kernel, step: Step, fates: dict[str, set[str]]) -> Kernel | None:
    """The kernel with one more step, or None where they do not fit together."""
    if kernel.steps and not _related(kernel, step, fates):
        return None
    extent = kernel.extent
    if step.reduces:
        if math.prod(step.domain) != kernel.total or extent not in (1, step.extent):
            return None
        extent = step.extent
    row = step.reduces or (extent > 1 and step.numel == kernel.total // extent)
    if not row and step.numel != kernel.total:
        return None
    grown = replace(kernel, extent=extent, steps=[*kernel.steps, step])
    grown.rows = kernel.rows | ({step.name} if row else set())
    grown.cuts = kernel.cuts | {extent}
    for arg in step.args:
        cuts = _cuts(kernel, extent, step, arg, row and not step.reduces)
        if cuts is None:
            return None
        grown.cuts = grown.cuts | cuts
    return grown if _is_chain(grown.cuts | {grown.total}) else None


def _related(kernel: Kernel, step: Step, fates: dict[str, set[str]]) -> bool:
    """Whether a kernel shares memory with a step, or something later needs both."""
    known = kernel.names | set(kernel.memory)
    if any(isinstance(arg, Ref) and arg.name in known for arg in step.args):
        return True
    return any(fates[step.name] & fates[name] for name in kernel.names)


def _fates(graph: Graph) -> dict[str, set[str]]:
    """For each step all that depend on it."""
    fates: dict[str, set[str]] = {step.name: set() for step in graph.steps}
    for step in reversed(graph.steps):
        for arg in step.args:
            if isinstance(arg, Ref) and arg.name in fates:
                fates[arg.name] |= {step.name} | fates[step.name]
    return fates


def _cuts(kernel: Kernel, extent: int, step: Step, arg: Arg, on_rows: bool) -> set[int] | None:
    """Where an argument's strides change, or None where this kernel cannot hand it to the step."""
    if not isinstance(arg, Ref):
        return set()
    shape = step.shape if on_rows else step.domain
    if arg.name in kernel.names:
        fits = _fits(kernel, extent, arg, shape, on_rows)
        return set() if fits else None
    cuts: set[int] = set()
    block = extent if on_rows else 1
    for size, _ in reversed(_pairs(arg, shape)):
        block *= size
        cuts.add(block)
    return cuts


def _fits(kernel: Kernel, extent: int, arg: Ref, shape: Shape, on_rows: bool) -> bool:
    """Whether a result of this kernel is at hand just where the step needs it."""
    count = kernel.total // extent
    if arg.name not in kernel.rows:
        return not on_rows and arg.plain and arg.numel == kernel.total
    if on_rows:
        return arg.plain and arg.numel == count
    if arg.offset or extent == 1:
        return False
    return _pairs(arg, shape) == merge_dims([(count, 1), (extent, 0)])


def _pairs(ref: Ref, shape: Shape) -> list[tuple[int, int]]:
    return merge_dims(list(zip(shape, broadcast_strides(ref, shape), strict=True)))


def _is_chain(cuts: set[int]) -> bool:
    ordered = sorted(cuts)
    divides = all(b % a == 0 for a, b in itertools.pairwise(ordered))
    return divides and len(ordered) - 1 <= MAX_LOOPS


def _strides_per_loop(pairs: list[tuple[int, int]], loops: tuple[int, ...]) -> tuple[int, ...]:
    """Spread (extent, stride) pairs over loops that cut at least as finely."""
    left = list(pairs)
    size, step = left.pop() if left else (1, 0)
    strides = []
    for extent in reversed(loops):
        if size == 1 and left:
            size, step = left.pop()
        strides.append(step if size > 1 else 0)
        if size > 1:
            step *= extent
            size //= extent
    return tuple(reversed(strides))


def _inlined(graph: Graph) -> Iterable[Step]:
    """Compute small things made of leaves alone where they are used, instead of in kernels of their own."""
    small: dict[str, Step] = {}
    result: list[Step] = []
    kept = {ref.name for ref in graph.outputs}
    for step in graph.steps:
        args: list[Arg] = []
        for position, arg in enumerate(step.args):
            source = small.get(arg.name) if isinstance(arg, Ref) else None
            if source is None or not isinstance(arg, Ref) or not _may_inline(source, arg, step):
                args.append(arg)
                continue
            name = f"{step.name}_{position}"
            copies = _stretched(source, step.domain, name, small)
            result += copies
            args.append(copies[-1].ref())
        done = replace(step, args=tuple(args))
        if not step.reduces and all(
            not isinstance(a, Ref) or a.name in graph.leaves or a.name in small for a in step.args
        ):
            small[step.name] = step
        result.append(done)
    return _needed(result, kept)


def _may_inline(source: Step, arg: Ref, step: Step) -> bool:
    smaller = source.numel < math.prod(step.domain)
    along = broadcast_strides(arg, step.domain)
    repeated = all(s == 0 for s, n in list(zip(along, step.domain, strict=True))[-1:] if n > 1)
    return (
        smaller
        and arg.plain
        and arg.shape == source.shape
        and (repeated or source.op not in COSTLY)
    )


def _stretched(source: Step, shape: Shape, name: str, small: dict[str, Step]) -> list[Step]:
    """The step and what it needs, computed over a larger shape."""
    before: list[Step] = []
    args: list[Arg] = []
    for position, arg in enumerate(source.args):
        inner = small.get(arg.name) if isinstance(arg, Ref) else None
        if isinstance(arg, Ref) and inner is not None and arg.plain and arg.shape == inner.shape:
            before += _stretched(inner, shape, f"{name}_{position}", small)
            args.append(before[-1].ref())
        elif isinstance(arg, Ref):
            over = Ref(
                arg.name, source.shape, broadcast_strides(arg, source.shape), arg.dtype, arg.offset
            )
            args.append(replace(over, shape=shape, strides=broadcast_strides(over, shape)))
        else:
            args.append(arg)
    return [*before, replace(source, name=name, args=tuple(args), shape=shape)]


def _needed(steps: list[Step], kept: set[str]) -> list[Step]:
    wanted = set(kept)
    for step in reversed(steps):
        if step.name in wanted:
            wanted |= {arg.name for arg in step.args if isinstance(arg, Ref)}
    return [step for step in steps if step.name in wanted]
