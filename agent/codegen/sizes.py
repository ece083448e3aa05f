"""Sizes as expressions over the dimensions of an operand, so that kernels work for other shapes too."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from agent.codegen.ir import Ref, Shape
from agent.codegen.plan import Kernel


@dataclass(frozen=True)
class Sizes:
    """How a kernel learns its loop extents."""

    witness: str
    """C name of the operand whose dimensions are used; empty where all sizes are literal."""
    shape: Shape
    loops: tuple[tuple[int, ...], ...]
    """Per loop the dimensions of the witness whose product it is."""

    def arguments(self) -> list[str]:
        """The manifest's names of the dimensions that the launcher gets."""
        used = sorted({axis for axes in self.loops for axis in axes})
        return [f"{self.witness}.{axis}" for axis in used]

    def loop(self, index: int, extent: int) -> str:
        """C expression of a loop's extent."""
        if not self.witness or not self.loops[index]:
            return str(extent)
        return " * ".join(f"{self.witness}_{axis}" for axis in self.loops[index])

    def shape_of(self, shape: Shape, block: int) -> tuple[str, ...]:
        """A result's shape for the manifest. `block` elements of the kernel's domain go into one of it."""
        texts = []
        for size in reversed(shape):
            axes = _span(self.shape, block, block * size) if self.witness and size != 1 else None
            if axes:
                texts.append(" * ".join(f"{self.witness}.{axis}" for axis in axes))
            else:
                texts.append(str(size))
            block *= size
        return tuple(reversed(texts))

    def row_bytes(self, kernel: Kernel, itemsize: int, threads: int) -> str:
        """Manifest expression of the bytes of one row buffer per thread."""
        axes = _span(self.shape, 1, kernel.extent) if self.witness else None
        if not axes:
            return str(itemsize * kernel.extent * threads)
        product = " * ".join(f"{self.witness}.{axis}" for axis in axes)
        return f"{itemsize * threads} * {product}"


def find_sizes(kernel: Kernel, operands: dict[str, Ref]) -> Sizes:
    """Look for an operand whose dimensions give all loops; `operands` maps C names to whole tensors."""
    cuts = [1]
    for extent in reversed(kernel.loops):
        cuts.append(cuts[-1] * extent)
    for name, ref in operands.items():
        if ref.numel != kernel.total:
            continue
        spans = [_span(ref.shape, a, b) for a, b in itertools.pairwise(cuts)]
        if all(span is not None for span in spans):
            loops = tuple(tuple(span or ()) for span in reversed(spans))
            return Sizes(name, ref.shape, loops)
    return Sizes("", (), tuple(() for _ in kernel.loops))


def _span(shape: Shape, inner: int, outer: int) -> list[int] | None:
    """The dimensions whose product is outer/inner, where inner elements lie behind the last of them."""
    axes = []
    block = 1
    for axis in range(len(shape) - 1, -1, -1):
        if inner <= block < outer and shape[axis] != 1:
            axes.append(axis)
        block *= shape[axis]
    if not axes:
        return None if outer != inner else []
    product = math.prod(shape[axis] for axis in axes)
    behind = math.prod(shape[axes[0] + 1 :])
    return sorted(axes) if behind == inner and product * inner == outer else None
