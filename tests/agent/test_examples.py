"""The examples that come with the product: well formed, worth a look, and solved by codegen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agent.codegen.lowering import lower
from agent.codegen.plan import plan
from agent.codegen.rules import RULES
from workers.protocol.problem import parse_problem_toml

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/model.py"))


def test_there_are_four():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_each_has_a_title_and_becomes_one_correct_kernel(path, reference, built):
    spec = parse_problem_toml((path.parent / "problem.toml").read_text())
    assert spec.title
    assert spec.threads == 1
    torch.manual_seed(1)
    loaded = reference(path.read_text())
    assert len(plan(lower(loaded.inspection, RULES))) == 1
    with torch.no_grad():
        made = built(loaded).module(*loaded.inputs)
        wanted = loaded.module(*loaded.inputs)
    torch.testing.assert_close(made, wanted, rtol=2e-5, atol=2e-6)
