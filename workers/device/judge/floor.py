"""Physics: no kernel writes its outputs and reads what it needs faster than a core moves bytes at all.

The bound rejects, so it is a cautious one: twice the best rate at which a core copies within its caches,
where honest inputs come from farther away. All inputs and outputs are counted first; only if a candidate is
below that, single cache lines of the inputs are changed in the *reference*, and an input counts for the
share of its lines, at a confidence of 99 %, that change any bit of an output. So a model that looks at a
few rows of a table is not charged for the table.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence

import torch

LINE_BYTES = 64
SAMPLES = 64
MARGIN = 2.0
LEAST_PEAK = 200e9
"""Bytes per second that a core is trusted with in any case."""
_Z = 2.33  # one-sided 99 %
_COPIED_BYTES = (64 << 10, 128 << 10, 256 << 10)
_COPIES = 40


def peak_bandwidth(threads: int) -> float:
    """Bytes per second, read and written, that this many cores cannot beat."""
    best = max(_copy_rate(size) for size in _COPIED_BYTES)
    return threads * max(MARGIN * best, LEAST_PEAK)


def least_ms(moved_bytes: float, bandwidth: float) -> float:
    """Milliseconds that so many bytes take at least."""
    return 1e3 * moved_bytes / bandwidth


def share_that_matters(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> float:
    """At least which share of the inputs' cache lines changes the outputs; `inputs` are flat."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in inputs]
    if not sum(sizes):
        return 0.0
    expected = call(list(inputs))
    hits = 0
    for _ in range(SAMPLES):
        changed = list(inputs)
        place = secrets.randbelow(sum(sizes))
        for position, size in enumerate(sizes):
            if place < size:
                changed[position] = _without_line(inputs[position], place)
                break
            place -= size
        hits += _differ(expected, call(changed))
    return _lower_bound(hits, SAMPLES)


def _without_line(tensor: torch.Tensor, place: int) -> torch.Tensor:
    """A copy whose cache line around byte `place` holds NaN, or other values from the same tensor."""
    each = LINE_BYTES // tensor.element_size()
    first = place // LINE_BYTES * each
    changed = tensor.clone()
    line = changed[first : first + each]
    if tensor.dtype.is_floating_point:
        line.fill_(math.nan)
    else:
        line.copy_(tensor[torch.randint(tensor.numel(), line.shape)])
    return changed


def _differ(expected: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:
    return any(
        a.shape != b.shape or not torch.equal(_bits(a), _bits(b))
        for a, b in zip(expected, outputs, strict=True)
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _lower_bound(hits: int, samples: int) -> float:
    """Wilson's lower bound of a share."""
    share, z2 = hits / samples, _Z * _Z
    middle = share + z2 / (2 * samples)
    spread = _Z * math.sqrt(share * (1 - share) / samples + z2 / (4 * samples**2))
    return max((middle - spread) / (1 + z2 / samples), 0.0)


def _copy_rate(size: int) -> float:
    source = torch.ones(size, dtype=torch.uint8)
    target = torch.empty_like(source)
    best = math.inf
    for _ in range(_COPIES):
        started = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - started)
    return 2 * size / best
