"""Comparison: what passes and what does not, tried at half and twice the tolerance."""

from __future__ import annotations

import pytest
import torch

from workers.device.judge.compare import FACTOR, Expectation, bounds_for, close, compare
from workers.protocol.problem import Precision

IEEE = Precision.IEEE


def expectation(dtype: torch.dtype = torch.float32) -> Expectation:
    exact = torch.randn(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return Expectation(exact.to(dtype), exact)


def noise(shape: torch.Size, rms: float) -> torch.Tensor:
    made = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    return made * (rms / made.square().mean().sqrt())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("share", "passed"), [(0.5, True), (2.0, False)])
def test_half_of_the_limit_passes_and_twice_fails(
    dtype: torch.dtype, share: float, passed: bool
) -> None:
    expected = expectation(dtype)
    assert expected.exact is not None
    limit = bounds_for(dtype, IEEE).floor_rms
    actual = (expected.exact + noise(expected.eager.shape, share * limit)).to(dtype)
    assert compare("", expected, actual, IEEE).passed is passed


def test_a_worse_eager_allows_the_candidate_as_much_more() -> None:
    good = expectation()
    assert good.exact is not None
    sloppy = (good.exact + noise(good.eager.shape, 3e-5)).float()
    actual = (good.exact - noise(good.eager.shape, 3e-5 * 0.9 * FACTOR)).float()
    assert compare("", Expectation(sloppy, good.exact), actual, IEEE).passed
    assert not compare("", good, actual, IEEE).passed


def test_half_precision_is_seen() -> None:
    expected = expectation()
    error = compare("", expected, expected.eager.half().float(), IEEE)
    assert not error.passed
    assert error.rms_error > error.rms_limit


def test_zeros_do_not_pass_for_small_outputs() -> None:
    tiny = expectation().eager.double() * 1e-6
    assert not compare("", Expectation(tiny.float(), tiny), torch.zeros(64, 256), IEEE).passed


def test_one_wrong_element_is_found_and_named() -> None:
    expected = expectation()
    actual = expected.eager.clone()
    actual[7, 200] += 0.5
    error = compare("y", expected, actual, IEEE)
    assert not error.passed
    assert error.first_bad_index == (7, 200)
    assert error.actual == pytest.approx(float(actual[7, 200]))


def test_type_and_shape_are_compared_before_numbers() -> None:
    expected = expectation()
    assert "float16" in compare("", expected, expected.eager.half(), IEEE).message
    assert not compare("", expected, expected.eager[:32], IEEE).passed


def test_nan_is_never_a_wildcard() -> None:
    expected = expectation()
    actual = expected.eager.clone()
    actual[0, 0] = float("nan")
    assert not compare("", expected, actual, IEEE).passed


def test_infinities_must_stand_where_the_reference_has_them() -> None:
    exact = torch.tensor([1.0, float("-inf"), 2.0], dtype=torch.float64)
    expected = Expectation(exact.float(), exact)
    assert compare("", expected, exact.float(), IEEE).passed
    assert not compare("", expected, torch.tensor([float("-inf"), 1.0, 2.0]), IEEE).passed


def test_integers_must_be_equal() -> None:
    eager = torch.arange(100)
    assert compare("", Expectation(eager, None), eager.clone(), IEEE).passed
    assert not compare("", Expectation(eager, None), eager + (eager == 50), IEEE).passed


def test_empty_outputs_are_equal() -> None:
    empty = torch.zeros(0, 4)
    assert compare("", Expectation(empty, empty.double()), torch.zeros(0, 4), IEEE).passed


def steep() -> Expectation:
    """Elements from e-30 to e+30."""
    exact = torch.exp(8 * expectation().eager.double())
    return Expectation(exact.float(), exact)


@pytest.mark.parametrize("share", [0.5, 0.03])
def test_small_elements_may_not_be_left_out(share: float) -> None:
    expected = steep()
    assert expected.exact is not None
    bound = expected.exact.quantile(share)
    dropped = torch.where(expected.exact < bound, 0.0, expected.eager)
    error = compare("", expected, dropped, IEEE)
    assert not error.passed
    assert "where that is small" in error.message
    assert not close(expected.eager, dropped, IEEE)


def test_small_elements_may_have_the_noise_that_eager_s_have() -> None:
    expected = steep()
    assert expected.exact is not None
    rounded = (expected.exact * (1 + 3e-6)).float()
    assert compare("", expected, rounded, IEEE).passed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_elements_near_zero_may_have_the_noise_of_their_sum(dtype: torch.dtype) -> None:
    expected = expectation(dtype)
    assert expected.exact is not None
    limit = bounds_for(dtype, IEEE).floor_rms
    actual = (expected.exact + noise(expected.eager.shape, 0.9 * limit)).to(dtype)
    assert compare("", expected, actual, IEEE).passed
