"""Looking at every call of a timed block: a few secret elements of each output, and where the outputs lie.

One call of a block is compared as a whole, which leaves a share of the calls unseen. So some elements of
*every* call's outputs are read from the standing runner, the same ones in both arms: a call that was left
out, or answered before its work was done, shows there. The pages that hold them must be the runner's
own, written memory: a page that is a file's, shared with another mapping or not there yet is work that is left
to whoever reads the output (here the judge, whose copying is not charged).

Not covered: a call of which only a small part is wrong is found in proportion to that part. Where the
kernel shows no page map, the pages are not looked at.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.device.judge import memory
from workers.device.judge.compare import bounds_for
from workers.device.judge.link import OutputPlace, RunnerFailure, RunnerLink
from workers.protocol.problem import Precision

ELEMENTS = 24
# Two arms may each be off by the cap, in opposite directions, and are compared with each other here.
SLACK = 4.0
UNWRITTEN = (
    "An output lies on pages that the call has not written itself (mapped from a file, shared or empty); "
    "write it into memory of its own."
)
Span = tuple[int, int]


@dataclass(frozen=True)
class Spots:
    """What was seen of one call."""

    values: list[torch.Tensor]
    """Per output the elements at the marks."""
    foreign: int
    """How many of them lie on pages that are not the runner's own written memory."""


def choose_marks() -> list[float]:
    """Secret places within an output, as shares of its length; the last element is always among them."""
    random = secrets.SystemRandom()
    return [*(random.random() for _ in range(ELEMENTS - 1)), 1.0]


def look(link: RunnerLink, places: list[OutputPlace], marks: Sequence[float]) -> Spots:
    """Read the marked elements of one call's outputs from a standing runner."""
    values, foreign = [], 0
    for place in places:
        addresses = [place.address + offset for offset in _offsets(place, marks)]
        size = place.dtype.itemsize
        buffer = torch.empty(len(addresses), dtype=place.dtype)
        if addresses:
            try:
                memory.gather_into(link.pid, addresses, size, buffer.data_ptr())
            except OSError as error:
                message = f"its memory cannot be read ({error})"
                raise RunnerFailure(link.role, "nonsense", message) from error
            foreign += memory.foreign_pages(link.pid, addresses)
        values.append(buffer)
    return Spots(values, foreign)


def _offsets(place: OutputPlace, marks: Sequence[float]) -> list[int]:
    """Bytes from the start of an output to its marked elements."""
    count = 1
    for size in place.shape:
        count *= size
    if not count:
        return []
    offsets = []
    for mark in marks:
        flat, offset = min(int(mark * count), count - 1), 0
        for size, stride in zip(reversed(place.shape), reversed(place.strides), strict=True):
            flat, index = divmod(flat, size)
            offset += index * stride
        offsets.append(offset * place.dtype.itemsize)
    return offsets


def size_of(whole: torch.Tensor) -> float:
    """Root mean square of the finite elements of an output: the measure for its small elements."""
    if not whole.dtype.is_floating_point or not whole.numel():
        return 0.0
    size = float(torch.linalg.vector_norm(whole)) / math.sqrt(whole.numel())
    if math.isfinite(size):
        return size
    usable = whole[torch.isfinite(whole)].double()
    return float(usable.square().mean().sqrt()) if usable.numel() else 0.0


def differ(eager: Spots, mine: Spots, sizes: Sequence[float], precision: Precision) -> bool:
    """Whether a call's marked elements are clearly others than eager's.

    `sizes` are those of eager's outputs of the compared call (`size_of`), taken once for a whole block.
    """
    if len(eager.values) != len(mine.values):
        return True
    return any(
        _differ(e, m, size, precision)
        for e, m, size in zip(eager.values, mine.values, sizes, strict=True)
    )


def _differ(eager: torch.Tensor, mine: torch.Tensor, size: float, precision: Precision) -> bool:
    if eager.dtype != mine.dtype or eager.shape != mine.shape:
        return True
    if not eager.dtype.is_floating_point:
        return not torch.equal(eager, mine)
    finite = torch.isfinite(eager)
    if not torch.equal(finite, torch.isfinite(mine)):
        return True
    e, m = eager[finite].double(), mine[finite].double()
    limit = SLACK * bounds_for(eager.dtype, precision).cap_max
    return bool(((e - m).abs() > limit * e.abs().clamp_min(max(size, 1e-300))).any())


def misplaced(
    eager: list[OutputPlace],
    mine: list[OutputPlace],
    eager_inputs: Sequence[Span],
    my_inputs: Sequence[Span],
) -> str:
    """What is wrong with where one call's outputs lie, as a sentence; empty if nothing.

    What the reference itself does, a candidate may do too.
    """
    if any(_folded(m) and not _folded(e) for e, m in zip(eager, mine, strict=False)):
        return (
            "Elements of an output share memory, as in an expanded tensor; the reference writes "
            "each of them."
        )
    if _meet(spans_of(mine), my_inputs) and not _meet(spans_of(eager), eager_inputs):
        return "An output lies in the memory of an input; it must have memory of its own."
    if _crossing(spans_of(mine)) and not _crossing(spans_of(eager)):
        return "Two outputs of one call share memory; each must have memory of its own."
    return ""


def spans_of(places: list[OutputPlace]) -> list[Span]:
    """Address ranges of outputs."""
    return [(p.address, p.address + p.reach) for p in places if p.reach]


def _folded(place: OutputPlace) -> bool:
    """Whether fewer bytes are reached than the elements have."""
    count = 1
    for size in place.shape:
        count *= size
    return place.reach < count * place.dtype.itemsize


def _meet(spans: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(a < d and c < b for a, b in spans for c, d in others)


def _crossing(spans: list[Span]) -> bool:
    return any(later[0] < earlier[1] for earlier, later in itertools.pairwise(sorted(spans)))
