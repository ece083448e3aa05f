"""Comparing outputs, always on bytes that the judge holds.

Errors are measured against the fp64 reference r, relative to its RMS:

    rms(x) = RMS(x - r) / RMS(r)          max(x) = max_i |x_i - r_i| / max(RMS(r), |r_i|)

and the candidate's may be at most `FACTOR` times eager's own, but never less than the floor of the
element type (what a different order of summation costs) and never more than its cap. Where the model
has no double-precision form, eager itself is r and the floor decides. Integers must be equal.

Where elements differ in size by many orders, such errors see the large ones only. So the small ones count
by themselves too: of the errors |x_i - r_i| / |r_i| the median and the larger quantiles may be at most
`FACTOR` times eager's own or the cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from workers.protocol.problem import Precision
from workers.protocol.verdict import OutputError

FACTOR = 4.0
# The quantiles of errors relative to an element's own size, and the sample that they are taken from.
QUANTILES = (0.5, 0.9, 0.99)
SAMPLE, FEWEST = 1 << 15, 256
NEGLIGIBLE = 1e-20


@dataclass(frozen=True)
class Bounds:
    """Relative errors: floor and cap for RMS and maximum."""

    floor_rms: float
    floor_max: float
    cap_rms: float
    cap_max: float


_IEEE = {
    torch.float64: Bounds(1e-13, 1e-12, 1e-10, 1e-9),
    torch.float32: Bounds(1e-5, 1e-4, 1e-3, 1e-2),
    torch.float16: Bounds(1e-3, 1e-2, 5e-3, 5e-2),
    torch.bfloat16: Bounds(5e-3, 5e-2, 2e-2, 2e-1),
}
_RELAXED = {
    Precision.TF32: Bounds(1e-3, 1e-2, 5e-3, 5e-2),
    Precision.BF16: Bounds(5e-3, 5e-2, 2e-2, 2e-1),
    Precision.PAPER: Bounds(1e-2, 1e-1, 1e-2, 1e-1),
}


def bounds_for(dtype: torch.dtype, precision: Precision) -> Bounds:
    """Floor and cap for an output of this type in a problem of this precision."""
    bounds = _IEEE[dtype]
    relaxed = _RELAXED.get(precision)
    if relaxed is None or relaxed.floor_rms <= bounds.floor_rms:
        return bounds
    return relaxed


@dataclass(frozen=True)
class Expectation:
    """What one output should be: eager's value, and the fp64 value where there is one."""

    eager: torch.Tensor
    exact: torch.Tensor | None

    @property
    def reference(self) -> torch.Tensor:
        return self.eager.double() if self.exact is None else self.exact.double()


def compare(
    path: str, expected: Expectation, actual: torch.Tensor, precision: Precision
) -> OutputError:
    """Judge one output; a wrong type, shape or non-finite element decides before any error is measured."""
    eager = expected.eager
    if actual.dtype != eager.dtype or actual.shape != eager.shape:
        return _refused(
            path,
            f"is {_kind(actual)}, the reference gives {_kind(eager)}",
        )
    if not eager.dtype.is_floating_point:
        return _compare_exact(path, eager, actual)
    if not _all_finite(eager, actual):
        finite = torch.isfinite(eager)
        bad = finite != torch.isfinite(actual)
        if bool(bad.any()) or not torch.equal(torch.isnan(eager), torch.isnan(actual)):
            return _refused(path, "has NaN or infinity in other places than the reference", bad)
    return _compare_floats(path, expected, actual, precision)


def close(eager: torch.Tensor, actual: torch.Tensor, precision: Precision) -> bool:
    """A quick yes for outputs well within the floors, against eager alone; False means: look closely."""
    if actual.dtype != eager.dtype or actual.shape != eager.shape or not eager.numel():
        return False
    if not eager.dtype.is_floating_point:
        return torch.equal(eager, actual)
    difference = actual - eager
    size = float(torch.linalg.vector_norm(eager))
    bounds = bounds_for(actual.dtype, precision)
    # Comparisons with NaN are false, so NaN and infinity never pass here.
    if not (
        float(torch.linalg.vector_norm(difference)) <= bounds.floor_rms * size
        and float(difference.abs_().max()) <= bounds.floor_max * size / math.sqrt(eager.numel())
    ):
        return False
    small, limit, _ = _by_own_size(eager, actual, eager, bounds)
    return small <= limit


def _all_finite(*tensors: torch.Tensor) -> bool:
    """Whether all elements are finite, seen from the sums: one infinity or NaN would show there."""
    return all(math.isfinite(float(tensor.sum())) for tensor in tensors)


def _compare_floats(
    path: str, expected: Expectation, actual: torch.Tensor, precision: Precision
) -> OutputError:
    r, usable = expected.reference, None
    if not _all_finite(r, expected.eager, actual):
        usable = torch.isfinite(expected.eager) & torch.isfinite(r)
        r = torch.where(usable, r, 0.0)
    scale = _rms(r)
    weight = r.abs().clamp_min_(max(scale, 1e-300))
    eager_rms, eager_max, _ = _errors(expected.eager, r, usable, scale, weight)
    rms, worst, at = _errors(actual, r, usable, scale, weight)
    bounds = bounds_for(actual.dtype, precision)
    rms_limit = min(max(FACTOR * eager_rms, bounds.floor_rms), bounds.cap_rms)
    max_limit = min(max(FACTOR * eager_max, bounds.floor_max), bounds.cap_max)
    passed = rms <= rms_limit and worst <= max_limit
    message = "differs from the reference, most at index"
    if passed:
        small, small_limit, small_at = _by_own_size(expected.eager, actual, r, bounds)
        if small > small_limit:
            passed, worst, max_limit, at = False, small, small_limit, small_at
            message = "differs from the reference where that is small, as at index"
    index = _index(at, actual.shape)
    return OutputError(
        path=path,
        rms_error=_finite(rms),
        rms_limit=rms_limit,
        max_error=_finite(worst),
        max_limit=max_limit,
        passed=passed,
        message="" if passed else f"{message} {list(index)}",
        first_bad_index=None if passed else index,
        expected=None if passed else _finite(float(r.flatten()[at])),
        actual=None if passed else _finite(float(actual.flatten()[at])),
    )


def _errors(
    x: torch.Tensor,
    r: torch.Tensor,
    usable: torch.Tensor | None,
    scale: float,
    weight: torch.Tensor,
) -> tuple[float, float, int]:
    """Relative RMS error, relative maximum error and the flat index of the maximum."""
    if x.numel() == 0:
        return 0.0, 0.0, 0
    difference = torch.sub(x.double(), r).abs_()
    if usable is not None:
        difference = torch.where(usable, difference, 0.0)
    rms = _rms(difference) / max(scale, 1e-300)
    worst, at = difference.div_(weight).flatten().max(dim=0)
    return rms, float(worst), int(at)


def _by_own_size(
    eager: torch.Tensor, actual: torch.Tensor, r: torch.Tensor, bounds: Bounds
) -> tuple[float, float, int]:
    """A quantile of the errors relative to each element's own size, its limit, and the index of a bad one.

    A regular sample is looked at, without elements that are zero or next to nothing beside the rest.
    """
    step = max(r.numel() // SAMPLE, 1)
    e, x, y = (t.flatten()[::step].double() for t in (eager, actual, r))
    usable = torch.isfinite(e) & torch.isfinite(x) & (y.abs() > NEGLIGIBLE * _rms(r))
    if int(usable.sum()) < FEWEST:
        return 0.0, 1.0, 0
    sizes = y[usable].abs()
    own, mine = ((t[usable] - y[usable]).abs() / sizes for t in (e, x))
    for quantile in QUANTILES:
        limit = max(FACTOR * float(own.quantile(quantile)), bounds.cap_max)
        # Noise of the permitted size may reach this far into the smallest elements.
        if bounds.floor_rms <= bounds.cap_max * (1 - quantile) and mine.quantile(quantile) > limit:
            at = int(usable.nonzero()[int(mine.argmax())]) * step
            return float(mine.quantile(quantile)), limit, at
    return 0.0, 1.0, 0


def _compare_exact(path: str, eager: torch.Tensor, actual: torch.Tensor) -> OutputError:
    different = eager != actual
    wrong = int(different.sum())
    if wrong:
        return _refused(path, f"differs from the reference in {wrong:,} elements", different)
    return OutputError(
        path=path, rms_error=0.0, rms_limit=0.0, max_error=0.0, max_limit=0.0, passed=True
    )


def _refused(path: str, message: str, bad: torch.Tensor | None = None) -> OutputError:
    index = None
    if bad is not None and bool(bad.any()):
        index = _index(int(bad.flatten().to(torch.uint8).argmax()), bad.shape)
    return OutputError(
        path=path,
        rms_error=1.0,
        rms_limit=0.0,
        max_error=1.0,
        max_limit=0.0,
        passed=False,
        message=message,
        first_bad_index=index,
    )


def _rms(x: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(x)) / math.sqrt(x.numel()) if x.numel() else 0.0


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 1e308


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat % max(size, 1))
        flat //= max(size, 1)
    return tuple(reversed(index))


def _kind(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
