"""What the judge learns of inputs, and that what it draws has the same law and never repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from workers.device.judge.inputs import Pool, TensorSpec, learn


def spec_of(make: object) -> TensorSpec:
    assert callable(make)
    torch.manual_seed(1)
    first = make()
    torch.manual_seed(2)
    second = make()
    description = [
        {
            "tensor": {
                "dtype": str(first.dtype).removeprefix("torch."),
                "shape": list(first.shape),
                "strides": list(first.stride()),
            }
        }
    ]
    return learn(description, [first.flatten()], [second.flatten()])[0]


def seeded(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """As a `get_inputs()` does it that wants the same inputs every time."""
    torch.manual_seed(42)
    return make()


@pytest.mark.parametrize(
    ("law", "make"),
    [
        ("normal", lambda: torch.randn(128, 256)),
        ("normal", lambda: 3.0 + 0.5 * torch.randn(128, 256)),
        ("uniform", lambda: torch.rand(128, 256)),
        ("uniform", lambda: 4.0 * torch.rand(128, 256) - 1.0),
        ("integer", lambda: torch.randint(0, 1000, (128, 256))),
        ("boolean", lambda: torch.rand(128, 256) > 0.5),
        ("constant", lambda: torch.tril(torch.ones(64, 64))),
        ("constant", lambda: torch.linspace(0, 1, 8192)),
        ("constant", lambda: seeded(lambda: torch.randn(8, 64))),
        ("constant", lambda: seeded(lambda: torch.rand(128, 256) > 0.5)),
        ("constant", lambda: seeded(lambda: torch.randperm(8192))),
        ("normal", lambda: seeded(lambda: torch.randn(128, 256))),
        ("integer", lambda: seeded(lambda: torch.randint(0, 1000, (128, 256)))),
        ("structured", lambda: torch.randn(128, 256).sort(dim=1).values),
        ("structured", lambda: torch.randperm(4096)),
        ("structured", lambda: torch.randn(8)),
        ("structured", lambda: torch.rand(128, 256) > 0.95),
    ],
)
def test_it_learns_the_law(law: str, make: object) -> None:
    assert spec_of(make).law == law


@pytest.mark.parametrize(
    "make",
    [
        lambda: 3.0 + 0.5 * torch.randn(128, 512),
        lambda: 4.0 * torch.rand(128, 512) - 1.0,
        lambda: torch.randint(5, 1000, (128, 512)),
    ],
)
def test_what_it_draws_has_the_same_law(make: object) -> None:
    spec = spec_of(make)
    assert callable(make)
    drawn, given = Pool(spec).fresh().double(), make().double().flatten()
    assert drawn.mean().item() == pytest.approx(given.mean().item(), rel=0.05, abs=0.05)
    assert drawn.std().item() == pytest.approx(given.std().item(), rel=0.05)
    if spec.law != "normal":
        assert spec.low <= drawn.min().item()
        assert drawn.max().item() <= spec.high


def test_no_two_draws_share_contents() -> None:
    pool = Pool(spec_of(lambda: torch.randn(64, 64)))
    draws = [pool.fresh() for _ in range(20)]
    assert len({tuple(d[:8].tolist()) for d in draws}) == len(draws)
