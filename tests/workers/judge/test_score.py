"""The arithmetic of the clock on numbers whose answer is known."""

from __future__ import annotations

import pytest

from workers.evaluation.score import (
    Line,
    Pair,
    arms_of,
    fit_line,
    half_width,
    interval_of_median,
    over,
    paired_ratio,
    scaled,
)
from workers.protocol.verdict import Ratio


def test_it_finds_slope_and_intercept() -> None:
    line = fit_line([(n, 0.5 + 2.0 * n) for n in (1, 4, 9, 16)])
    assert line.slope_ms == pytest.approx(2.0)
    assert line.intercept_ms == pytest.approx(0.5)
    assert line.at(10) == pytest.approx(20.5)


def test_one_disturbed_block_does_not_move_the_slope() -> None:
    points = [(n, 1.0 + 3.0 * n) for n in (1, 2, 4, 8, 12, 16)] + [(10, 500.0)]
    assert fit_line(points).slope_ms == pytest.approx(3.0)


def test_it_refuses_a_line_through_one_length() -> None:
    with pytest.raises(ValueError, match="two different lengths"):
        fit_line([(4, 1.0), (4, 1.1)])


def test_the_cost_of_the_call_is_taken_off_both_arms() -> None:
    assert paired_ratio(baseline_ms=21.0, candidate_ms=6.0, noop_ms=1.0) == pytest.approx(4.0)


def test_a_cheaper_loop_does_not_make_a_call_free() -> None:
    assert paired_ratio(baseline_ms=2.0, candidate_ms=0.9, noop_ms=1.0) == pytest.approx(10.0)


def test_the_interval_holds_the_median_and_is_narrow_for_equal_values() -> None:
    ratio = interval_of_median([2.0, 2.02, 1.98, 2.01, 1.99, 2.0, 2.0, 2.01])
    assert ratio.low <= ratio.median <= ratio.high
    assert ratio.median == pytest.approx(2.0, rel=0.01)
    assert half_width(ratio) < 0.01


def test_few_values_give_their_whole_range() -> None:
    ratio = interval_of_median([1.0, 3.0])
    assert (ratio.low, ratio.median, ratio.high, ratio.pairs) == (1.0, 2.0, 3.0, 2)


def test_a_ratio_of_ratios_is_conservative() -> None:
    ratio = over(Ratio(3.0, 2.9, 3.1, 16), Ratio(1.5, 1.4, 1.6, 8))
    assert ratio.median == pytest.approx(2.0)
    assert ratio.low == pytest.approx(2.9 / 1.6)
    assert ratio.high == pytest.approx(3.1 / 1.4)
    assert ratio.pairs == 8


def test_scaling_keeps_the_shape_of_the_interval() -> None:
    assert scaled(Ratio(2.0, 1.0, 4.0, 5), 0.5) == Ratio(1.0, 0.5, 2.0, 5)


NOOP = Line(slope_ms=0.0, intercept_ms=0.2)


def pairs_of(baseline: Line, candidate: Line) -> list[Pair]:
    return [Pair(n, baseline.at(n), candidate.at(n)) for n in (1, 2, 3, 5, 8, 13) * 3]


def test_cold_caches_at_the_start_of_a_block_do_not_flatter_or_hurt_anybody() -> None:
    arms = arms_of(pairs_of(Line(3.0, 0.6), Line(1.0, 0.5)), NOOP)
    assert arms.baseline.per_call_ms == pytest.approx(3.0)
    assert arms.candidate.per_call_ms == pytest.approx(1.0)
    assert arms.ratios == pytest.approx([3.0] * 18)


def test_work_hidden_in_the_fixed_part_is_charged() -> None:
    arms = arms_of(pairs_of(Line(3.0, 0.2), Line(0.1, 2.0)), NOOP)
    assert max(arms.ratios) < 13 * 3.0 / (13 * 0.1 + 1.8) + 1e-9
    assert arms.candidate.fixed_ms == 0.0


def test_an_intercept_that_no_cache_explains_is_noise_or_work_and_not_taken_off() -> None:
    arms = arms_of(pairs_of(Line(3.0, 5.2), Line(1.0, 5.2)), NOOP)
    assert arms.baseline.fixed_ms <= 0.5
    assert arms.candidate.fixed_ms <= 0.5
    assert max(arms.ratios) < 3.0


def test_an_intercept_within_the_noise_is_not_taken_off() -> None:
    noise = ((0.3, -0.4, 0.1, 0.35, -0.35) * 4)[:18]
    pairs = [
        Pair(p.calls, p.baseline_ms + e, p.candidate_ms)
        for p, e in zip(pairs_of(Line(3.0, 0.25), Line(1.0, 0.2)), noise, strict=True)
    ]
    assert arms_of(pairs, NOOP).baseline.fixed_ms == 0.0
