"""Value maps keep what get_inputs() means."""

from __future__ import annotations

import pytest
import torch

from workers.device.judge.inputs import TensorSpec
from workers.device.judge.maps import MAPS, large, mirrored, reordered, small


def spec(law: str, low: float, high: float, dtype: torch.dtype = torch.float32) -> TensorSpec:
    return TensorSpec(dtype, (1000,), (1,), law, low, high)


@pytest.mark.parametrize("name", list(MAPS))
def test_structured_and_constant_contents_stay_as_they_are(name: str) -> None:
    values = torch.arange(1000.0)
    for law in ("structured", "constant"):
        assert torch.equal(MAPS[name](spec(law, 0.0, 0.0), values), values)


@pytest.mark.parametrize("name", list(MAPS))
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 3.0), (5.0, 6.0)])
def test_uniform_contents_stay_within_their_bounds(name: str, low: float, high: float) -> None:
    values = low + (high - low) * torch.rand(1000)
    changed = MAPS[name](spec("uniform", low, high), values)
    assert changed.dtype is torch.float32
    assert float(changed.min()) >= low - 1e-5
    assert float(changed.max()) <= high + 1e-5


@pytest.mark.parametrize("name", list(MAPS))
def test_integers_stay_integers_within_their_bounds(name: str) -> None:
    values = torch.randint(3, 18, (1000,))
    changed = MAPS[name](spec("integer", 3, 17, torch.int64), values)
    assert changed.dtype is torch.int64
    assert int(changed.min()) >= 3
    assert int(changed.max()) <= 17


def test_normal_contents_change_sign_and_size_around_their_mean() -> None:
    values = torch.randn(1000)
    law = spec("normal", 0.0, 1.0)
    assert torch.equal(mirrored(law, values), -values)
    assert torch.allclose(small(law, values), values / 8)
    assert torch.allclose(large(law, values), 3 * values)


def test_reordering_keeps_every_element() -> None:
    values = torch.randn(1000)
    changed = reordered(spec("normal", 0.0, 1.0), values)
    assert not torch.equal(changed, values)
    assert torch.equal(changed.sort().values, values.sort().values)
