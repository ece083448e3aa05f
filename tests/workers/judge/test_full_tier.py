"""What the full tier looks at beyond the quick one."""

from __future__ import annotations

from typing import Any

import pytest

from workers.protocol.problem import Tier
from workers.protocol.verdict import Status

UNDER_DYNAMO = 'any("_dynamo" in frame.filename for frame in traceback.extract_stack())'
CANNOT_BE_COMPILED = """\
import traceback

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.scale = scale
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        if any("_dynamo" in frame.filename for frame in traceback.extract_stack()):
            raise RuntimeError("this one wants to be run as it is")
        return nn.functional.gelu(x + self.bias) * self.scale


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return [1024, 1.5]
"""

RIGHT_FOR_NORMAL_INPUTS_ONLY = """\
#include <cmath>
#include <cstdint>

extern "C" void ws_bias_gelu(const float *x, const float *bias, float *y, int64_t rows,
                             int64_t columns, double scale) {
  const float half = 0.5f * static_cast<float>(scale);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const float v = x[i * columns + j] + bias[j];
      const float erf = v > 6.0f ? 0.9f : std::erf(v * 0.70710678118654752f);
      y[i * columns + j] = half * v * (1.0f + erf);
    }
  }
}
"""


@pytest.fixture
def small_problem(workshop: Any) -> dict[str, str]:
    return {"model.py": CANNOT_BE_COMPILED.replace(UNDER_DYNAMO, "False")}


def test_it_times_torch_compile_beside_the_candidate(
    workshop: Any, small_problem: dict[str, str]
) -> None:
    evaluation = workshop.judge(small_problem, tier=Tier.FULL)
    if evaluation.status is Status.UNMEASURED:
        pytest.skip("the machine is too busy to time anything")
    assert evaluation.status is Status.PASSED, evaluation.summary
    timing = evaluation.timing
    if timing.speedup_compile is None:
        assert "too busy" in str(evaluation.findings)
        pytest.skip("the machine was too busy for the third arm")
    assert timing.compile.per_call_ms > 0
    assert {block.arm for block in timing.blocks} == {"eager", "candidate", "compile"}
    orders = [block.order for block in timing.blocks]
    assert orders == sorted(set(orders))


def test_a_model_that_torch_compile_cannot_take_is_certified_without_it(workshop: Any) -> None:
    evaluation = workshop.judge({"model.py": CANNOT_BE_COMPILED}, tier=Tier.FULL)
    if evaluation.status is Status.UNMEASURED:
        pytest.skip("the machine is too busy to time anything")
    assert evaluation.status is Status.PASSED, evaluation.summary
    assert evaluation.timing.speedup_compile is None
    (note,) = [f for f in evaluation.findings if f.rule == "no_compile_arm"]
    assert "this one wants to be run as it is" in note.message
    assert not note.rejects


def test_a_kernel_that_is_right_for_the_usual_inputs_only_passes_quick_and_not_full(
    workshop: Any, small_problem: dict[str, str]
) -> None:
    changes = {**small_problem, "kernels/bias_gelu.cpp": RIGHT_FOR_NORMAL_INPUTS_ONLY}
    assert workshop.judge(changes).status in (Status.PASSED, Status.UNMEASURED)
    evaluation = workshop.judge(changes, tier=Tier.FULL)
    assert evaluation.status is Status.INCORRECT
    (failed,) = [case for case in evaluation.correctness.cases if not case.passed]
    assert failed.name == "large inputs"
