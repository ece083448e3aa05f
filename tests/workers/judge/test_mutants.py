"""A problem whose comparison lets the laziest wrong answers pass is refused; others are told."""

from __future__ import annotations

from typing import Any

import pytest

from workers.protocol.verdict import Status

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}

    def forward(self, x):
        {forward}


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
"""


def model(forward: str, layers: str = "pass") -> str:
    return MODEL.format(forward=forward, layers=layers)


@pytest.mark.parametrize(
    ("forward", "sentence"),
    [
        ("return x * 0.0 + torch.zeros_like(x)[0, 0]", "does not depend"),
        ("return torch.ones_like(x) + 1e-7 * x", "does not depend"),
        ("return x.clone()", "copy of an input"),
        ("return x + 0.0 * x.sum()", "copy of an input"),
        ("return (1000.0 + 1e-3 * x).mean()", "does not depend"),
    ],
)
def test_it_refuses_a_problem_that_pays_for_nothing(
    workshop: Any, forward: str, sentence: str
) -> None:
    evaluation = workshop.inspect(model(forward))
    assert evaluation.status is Status.REJECTED
    assert sentence in evaluation.summary


def test_it_refuses_a_problem_whose_outputs_are_one_number_for_each_input(workshop: Any) -> None:
    evaluation = workshop.inspect(model("return x.sum().expand(8, 8) + 1e-9 * x[:8, :8]"))
    assert evaluation.status is Status.REJECTED
    assert "constant would pass" in evaluation.summary


def test_a_sound_problem_catches_every_wrong_answer(workshop: Any) -> None:
    evaluation = workshop.inspect(model("return self.fc(x)", "self.fc = nn.Linear(32, 16)"))
    assert evaluation.status is Status.PASSED, evaluation.summary
    tried = {mutant.name: mutant.caught for mutant in evaluation.inspection.mutants}
    assert {"zeros", "constant", "stale", "without fc.weight", "without fc.bias"} <= set(tried)
    assert "half precision (bfloat16)" in tried
    assert all(tried.values())


def test_a_parameter_that_cancels_out_is_told_and_not_refused(workshop: Any) -> None:
    layers = "self.fc = nn.Linear(32, 16); self.norm = nn.LayerNorm(16, elementwise_affine=False); self.unused = nn.Parameter(torch.ones(4))"
    evaluation = workshop.inspect(model("return self.norm(self.fc(x))", layers))
    assert evaluation.status is Status.PASSED, evaluation.summary
    missed = [mutant.name for mutant in evaluation.inspection.mutants if not mutant.caught]
    assert missed == ["without unused"]


def test_a_model_that_is_exact_in_half_precision_is_told_and_not_refused(workshop: Any) -> None:
    evaluation = workshop.inspect(model("return torch.sign(x)"))
    assert evaluation.status is Status.PASSED, evaluation.summary
    missed = [mutant.name for mutant in evaluation.inspection.mutants if not mutant.caught]
    assert missed == ["half precision (bfloat16)", "half precision (float16)"]


def test_a_single_number_is_compared_with_that_of_other_inputs(workshop: Any) -> None:
    evaluation = workshop.inspect(model("return x.square().mean()"))
    assert evaluation.status is Status.PASSED, evaluation.summary
