"""Input contents: learned from the problem's own `get_inputs()`, drawn by the judge.

A tensor whose sample looks like independent normal, uniform, integer or boolean draws is `learned`:
the judge makes its contents itself from secret entropy, a new mixture of two windows of a random
pool for every set, so that no two calls share contents. Anything else (sorted, masks, permutations,
heavy tails, tiny tensors) is `structured`: its contents come from `get_inputs()` under secret seeds.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

import torch

from workers.device.judge.link import DTYPES, RunnerLink
from workers.protocol.wire import ELEMENT_TYPES

_SAMPLE = 1 << 18
_SMALLEST_LEARNED = 64
_SMALLEST_RECOGNISED = 4096
"""Fewer elements than this look like draws of some law too easily."""


@dataclass(frozen=True)
class TensorSpec:
    """Type and layout of an input tensor and the law of its contents."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    law: str
    """`normal`, `uniform`, `integer`, `boolean`, `constant` or `structured`."""
    low: float = 0.0
    """Mean for `normal`, lower bound otherwise."""
    high: float = 0.0
    """Standard deviation for `normal`, upper bound (inclusive for integers) otherwise."""

    @property
    def elements(self) -> int:
        """Elements of storage that the layout reaches."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize


def tensors_in(description: list[Any]) -> list[dict[str, Any]]:
    """The tensor descriptions of an input description, in order of arguments."""
    found: list[dict[str, Any]] = []
    for item in description:
        if "tensor" in item:
            found.append(item["tensor"])
        elif "list" in item:
            found.extend(tensors_in(item["list"]))
        elif "dict" in item:
            found.extend(tensors_in(list(item["dict"].values())))
    return found


def read_tensors(link: RunnerLink, description: list[Any]) -> list[torch.Tensor]:
    """Copy the storage that each described tensor reaches, as flat tensors."""
    flats = []
    for item in tensors_in(description):
        dtype = DTYPES[ELEMENT_TYPES.index(item["dtype"])]
        length = int(item["bytes"])
        flats.append(link.read(int(item["address"]), length).view(dtype))
    return flats


def learn(
    description: list[Any], first: list[torch.Tensor], second: list[torch.Tensor]
) -> list[TensorSpec]:
    """Find each tensor's law from two draws under different seeds."""
    specs = []
    for item, a, b in zip(tensors_in(description), first, second, strict=True):
        law, low, high = _law(a, b)
        specs.append(
            TensorSpec(
                dtype=DTYPES[ELEMENT_TYPES.index(item["dtype"])],
                shape=tuple(item["shape"]),
                strides=tuple(item["strides"]),
                law=law,
                low=low,
                high=high,
            )
        )
    return specs


def _law(a: torch.Tensor, b: torch.Tensor) -> tuple[str, float, float]:
    if a.numel() == b.numel() and torch.equal(a, b):
        return _law_of_constant(a)
    if a.numel() < _SMALLEST_LEARNED:
        return "structured", 0.0, 0.0
    sample = a[:_SAMPLE]
    if a.dtype is torch.bool:
        share = sample.float().mean().item()
        return ("boolean", 0.0, 1.0) if abs(share - 0.5) < 0.1 else ("structured", 0.0, 0.0)
    x = sample.double()
    if not bool(torch.isfinite(x).all()) or _repeats_along(x):
        return "structured", 0.0, 0.0
    if not a.dtype.is_floating_point:
        return _integer_law(a)
    return _float_law(x, a)


def _law_of_constant(a: torch.Tensor) -> tuple[str, float, float]:
    """Contents that are the same under every seed: a table, or draws of a `get_inputs()` that seeds itself.

    Draws are recognised by what they look like, and drawn anew; a mask is taken for a table, since a
    half of its elements may be set in any pattern.
    """
    if a.numel() < _SMALLEST_RECOGNISED or a.dtype is torch.bool:
        return "constant", 0.0, 0.0
    x = a[:_SAMPLE].double()
    if not bool(torch.isfinite(x).all()) or _repeats_along(x):
        return "constant", 0.0, 0.0
    law = _float_law(x, a) if a.dtype.is_floating_point else _integer_law(a)
    return ("constant", 0.0, 0.0) if law[0] == "structured" else law


def _repeats_along(x: torch.Tensor) -> bool:
    """Whether neighbours depend on each other: sorted, smooth or blockwise contents."""
    centred = x - x.mean()
    variance = centred.square().mean().item()
    if variance == 0:
        return True
    bound = 5.0 / math.sqrt(x.numel())
    lags = (1, 2, 3, 7)
    return any(
        abs((centred[lag:] * centred[:-lag]).mean().item()) / variance > bound for lag in lags
    )


def _integer_law(a: torch.Tensor) -> tuple[str, float, float]:
    low, high = int(a.min()), int(a.max())
    span = high - low + 1
    values = torch.unique(a[:_SAMPLE])
    # Distinct values throughout mean a permutation or keys; few values far apart mean a code.
    if values.numel() == min(a.numel(), _SAMPLE) or (span < 4096 and values.numel() < 0.9 * span):
        return "structured", 0.0, 0.0
    return "integer", float(low), float(high)


def _float_law(x: torch.Tensor, a: torch.Tensor) -> tuple[str, float, float]:
    mean, deviation = x.mean().item(), x.std().item()
    z = (x - mean) / deviation
    skew, kurtosis = z.pow(3).mean().item(), z.pow(4).mean().item()
    slack = 40.0 / math.sqrt(x.numel())
    if abs(kurtosis - 3.0) < slack + 0.05 and abs(skew) < slack + 0.05:
        centre = 0.0 if abs(mean) < 5 * deviation / math.sqrt(x.numel()) else mean
        return "normal", centre, deviation
    if abs(kurtosis - 1.8) < slack + 0.05 and abs(skew) < slack + 0.05:
        low, high = a.min().item(), a.max().item()
        margin = (high - low) / max(a.numel(), 1)
        return "uniform", low - margin if low > margin else min(low, 0.0), high
    return "structured", 0.0, 0.0


class Pool:
    """Draws contents for one tensor without repeating any."""

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec
        self.generator = torch.Generator().manual_seed(secrets.randbits(63))
        n = spec.elements
        self.slack = min(max(n // 4, 4096), 1 << 20)
        self.random = self._draw(n + self.slack)

    def fresh(self) -> torch.Tensor:
        """A flat tensor of new contents with the spec's number of elements."""
        n, spec = self.spec.elements, self.spec
        first = secrets.randbelow(self.slack)
        second = (first + 1 + secrets.randbelow(self.slack - 1)) % self.slack
        a, b = self.random[first : first + n], self.random[second : second + n]
        if spec.law == "boolean":
            return torch.logical_xor(a, b)
        if spec.law == "integer":
            span = int(spec.high) - int(spec.low) + 1
            return ((a + b) % span + int(spec.low)).to(spec.dtype)
        mixed = torch.add(a, b)
        if spec.law == "uniform":
            # The fractional part of a sum of two uniform numbers is uniform again.
            mixed.sub_(mixed.floor()).mul_(spec.high - spec.low).add_(spec.low)
        else:
            mixed.mul_(spec.high / math.sqrt(2.0)).add_(spec.low)
        return mixed.to(spec.dtype)

    def _draw(self, count: int) -> torch.Tensor:
        spec = self.spec
        if spec.law == "boolean":
            return torch.randint(0, 2, (count,), generator=self.generator).bool()
        if spec.law == "integer":
            span = int(spec.high) - int(spec.low) + 1
            return torch.randint(0, span, (count,), generator=self.generator)
        kind = torch.float64 if spec.dtype is torch.float64 else torch.float32
        if spec.law == "uniform":
            return torch.rand(count, generator=self.generator, dtype=kind)
        return torch.randn(count, generator=self.generator, dtype=kind)
