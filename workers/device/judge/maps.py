"""Value maps for `full`: other inputs of the same structure, where a kernel may be right by luck no more.

Learned contents are independent draws, so that they may be mirrored, scaled and reordered within what their
law allows. Structured contents (masks, sorted keys, permutations) stay as `get_inputs()` gave them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from workers.device.judge.inputs import TensorSpec

Change = Callable[[TensorSpec, torch.Tensor], torch.Tensor]
_LEARNED = ("normal", "uniform", "integer")
SMALL, LARGE = 0.125, 3.0


def mirrored(spec: TensorSpec, flat: torch.Tensor) -> torch.Tensor:
    """Around the middle of its law: other signs, where that is zero."""
    if spec.law not in _LEARNED:
        return flat
    twice = 2 * spec.low if spec.law == "normal" else spec.low + spec.high
    if not flat.dtype.is_floating_point:
        return int(twice) - flat
    return (twice - flat.double()).to(flat.dtype)


def small(spec: TensorSpec, flat: torch.Tensor) -> torch.Tensor:
    """An eighth of the size, where that is within the law."""
    return _scaled(spec, flat, SMALL)


def large(spec: TensorSpec, flat: torch.Tensor) -> torch.Tensor:
    """Three times the size: a normal law has tails; the others end where they end."""
    return _scaled(spec, flat, LARGE) if spec.law == "normal" else flat


def reordered(spec: TensorSpec, flat: torch.Tensor) -> torch.Tensor:
    """The same elements in another order."""
    if spec.law not in (*_LEARNED, "boolean"):
        return flat
    return flat[torch.randperm(flat.numel())]


MAPS: dict[str, Change] = {
    "mirrored inputs": mirrored,
    "small inputs": small,
    "large inputs": large,
    "reordered inputs": reordered,
}


def applied(
    change: Change, specs: list[TensorSpec], contents: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The changed contents of one input set."""
    return [change(spec, flat) for spec, flat in zip(specs, contents, strict=True)]


def _scaled(spec: TensorSpec, flat: torch.Tensor, factor: float) -> torch.Tensor:
    if not flat.dtype.is_floating_point or spec.law not in _LEARNED:
        return flat
    if spec.law == "normal":
        return (spec.low + factor * (flat.double() - spec.low)).to(flat.dtype)
    inside = spec.low <= 0.0 <= spec.high
    return (factor * flat.double()).to(flat.dtype) if inside else flat
