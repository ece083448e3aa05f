"""The arithmetic of the clock: slopes, paired ratios, intervals. Pure functions on numbers.

A block of n calls costs T(n) = a + b n, where the no-op costs N(n) = A + B n. The time per call is b - B.
What a block costs beyond its calls and beyond the no-op is a - A: cold caches, for an honest arm. One pair
of blocks of equal length gives the ratio (T_baseline - N(n) - a') / (T_candidate - N(n) - a''), where a' is
the baseline's own such cost and a'' the candidate's, but never more than the baseline's: a candidate
that hides work in the fixed part pays for it.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workers.protocol.verdict import Ratio

_RESAMPLES = 1000
_SHORTEST_MS = 1e-6
_LEAST_SHARE = 0.1
"""A call counts as at least this share of the no-op's time: a candidate may make the loop around its
calls cheaper than the no-op was, and the rest would be next to nothing."""
_MOST_FIXED_MS = 0.5
"""What cold caches can cost a block at its start: some megabytes, fetched again. Where calls are long the
intercept is known no better than to a few of them, and more than this would be noise."""


@dataclass(frozen=True)
class Line:
    """T(n) = intercept_ms + slope_ms * n."""

    slope_ms: float
    intercept_ms: float

    def at(self, calls: int) -> float:
        """Milliseconds of a block of so many calls."""
        return self.intercept_ms + self.slope_ms * calls


def fit_line(points: Sequence[tuple[int, float]]) -> Line:
    """Fit by Theil and Sen: the median of all pairwise slopes, robust against single disturbed blocks.

    `points` are (calls, milliseconds); two different numbers of calls are needed at least.
    """
    slopes = [
        (t2 - t1) / (n2 - n1)
        for i, (n1, t1) in enumerate(points)
        for n2, t2 in points[i + 1 :]
        if n1 != n2
    ]
    if not slopes:
        raise ValueError("a line needs blocks of two different lengths")
    slope = statistics.median(slopes)
    return Line(slope, statistics.median(t - slope * n for n, t in points))


def paired_ratio(baseline_ms: float, candidate_ms: float, noop_ms: float) -> float:
    """Speed-up from two blocks of equal length, what the no-op costs taken off both."""
    least = max(_LEAST_SHARE * noop_ms, _SHORTEST_MS)
    return max(baseline_ms - noop_ms, least) / max(candidate_ms - noop_ms, least)


@dataclass(frozen=True)
class Pair:
    """Blocks of both arms of one length, close together in time; the mean of two each, less copies."""

    calls: int
    baseline_ms: float
    candidate_ms: float


@dataclass(frozen=True)
class Arm:
    """One arm of all pairs."""

    line: Line
    fixed_ms: float
    """What a block costs beyond its calls and beyond the no-op, as far as it stands out of the noise."""
    per_call_ms: float
    """Median over the blocks, the no-op and the fixed cost taken off."""


@dataclass(frozen=True)
class Arms:
    """What pairs say about both arms."""

    baseline: Arm
    candidate: Arm
    ratios: tuple[float, ...]
    """Speed-up of each pair."""


def arms_of(pairs: Sequence[Pair], noop: Line) -> Arms:
    """Both arms and the speed-up of every pair; two different lengths are needed at least."""
    baseline = _arm([(p.calls, p.baseline_ms) for p in pairs], noop, _MOST_FIXED_MS)
    candidate = _arm([(p.calls, p.candidate_ms) for p in pairs], noop, baseline.fixed_ms)
    ratios = tuple(
        paired_ratio(
            p.baseline_ms - baseline.fixed_ms,
            p.candidate_ms - candidate.fixed_ms,
            noop.at(p.calls),
        )
        for p in pairs
    )
    return Arms(baseline, candidate, ratios)


def _arm(points: Sequence[tuple[int, float]], noop: Line, most_ms: float) -> Arm:
    line = fit_line(points)
    beyond = line.intercept_ms - noop.intercept_ms - 2 * _intercept_error_ms(points, line)
    fixed = min(max(beyond, 0.0), most_ms)
    per_call = statistics.median((t - fixed - noop.at(n)) / n for n, t in points)
    return Arm(line, fixed, max(per_call, _SHORTEST_MS))


def _intercept_error_ms(points: Sequence[tuple[int, float]], line: Line) -> float:
    """Standard error of the intercept, from the median absolute residual (1.48 of it is one deviation)."""
    count = len(points)
    mean = sum(n for n, _ in points) / count
    spread = sum((n - mean) ** 2 for n, _ in points)
    deviation = 1.48 * statistics.median(abs(t - line.at(n)) for n, t in points)
    return deviation * math.sqrt(1 / count + mean**2 / spread)


@dataclass(frozen=True)
class Spread:
    """A median and its standard error, relative to it."""

    middle: float
    error: float


def spread_of(values: Sequence[float]) -> Spread:
    """Median of positive numbers with a robust standard error; at least one is needed."""
    middle = statistics.median(values)
    deviation = 1.48 * statistics.median(abs(value - middle) for value in values)
    return Spread(middle, 1.25 * deviation / math.sqrt(len(values)) / middle)


UNEVEN_SHARE = 0.15
"""What cold caches and rounding may make of the difference between short and long blocks."""


def uneven(few: Spread, many: Spread) -> bool:
    """Whether speed-ups of short and of long blocks differ by more than noise and caches explain."""
    share = abs(math.log(few.middle / many.middle))
    return share > max(UNEVEN_SHARE, 4 * math.hypot(few.error, many.error))


def interval_of_median(values: Sequence[float], seed: int = 0) -> Ratio:
    """Median of paired ratios with a 95 % bootstrap interval (percentile method, fixed seed)."""
    ordered = sorted(values)
    middle = statistics.median(ordered)
    if len(ordered) < 3:
        return Ratio(median=middle, low=ordered[0], high=ordered[-1], pairs=len(ordered))
    draw = random.Random(seed)  # noqa: S311  (resampling, not a secret)
    medians = sorted(
        statistics.median(draw.choices(ordered, k=len(ordered))) for _ in range(_RESAMPLES)
    )
    low = min(medians[int(0.025 * _RESAMPLES)], middle)
    high = max(medians[int(0.975 * _RESAMPLES) - 1], middle)
    return Ratio(median=middle, low=low, high=high, pairs=len(ordered))


def half_width(ratio: Ratio) -> float:
    """Half of the interval relative to the median."""
    return (ratio.high - ratio.low) / (2 * ratio.median)


def scaled(ratio: Ratio, factor: float) -> Ratio:
    """The same ratio with the candidate's time divided by `factor`."""
    return Ratio(
        median=ratio.median * factor,
        low=ratio.low * factor,
        high=ratio.high * factor,
        pairs=ratio.pairs,
    )


def over(speedup_eager: Ratio, compile_over_eager: Ratio) -> Ratio:
    """Speed-up against torch.compile from two ratios against eager, intervals combined conservatively."""
    return Ratio(
        median=speedup_eager.median / compile_over_eager.median,
        low=speedup_eager.low / compile_over_eager.high,
        high=speedup_eager.high / compile_over_eager.low,
        pairs=min(speedup_eager.pairs, compile_over_eager.pairs),
    )
