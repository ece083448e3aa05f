"""The files of a source zip: what they hold, and that the result builds and computes the same."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import tomllib
from pathlib import Path

import pytest

from launch.take_home import build_and_call
from tests.workers.protocol.messages import MESSAGES
from webapp.exports.archive import pack, with_sums
from webapp.exports.assembly import CPU_COMPILE_FLAGS, Origin, in_words, project_files
from webapp.exports.rewriting import NotExportable
from workers.evaluation.build_cpu import CpuRecipes
from workers.evaluation.build_toolchain import find_compiler
from workers.evaluation.build_tools import ToolLimits
from workers.protocol.codec import from_json
from workers.protocol.problem import Target
from workers.protocol.verdict import Evaluation, Ratio, Status

MODEL = b"""import torch


class Model(torch.nn.Module):
    def __init__(self, width, scale):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(width))
        self.scale = scale

    def forward(self, x):
        return torch.relu(x + self.bias) * self.scale


def get_init_inputs():
    return [33, 0.5]


def get_inputs():
    return [torch.randn(17, 33)]
"""
MODEL_NEW = b"""import kernel_ops
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width, scale):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.scale = scale

    def forward(self, x):
        return kernel_ops.bias_relu(x.contiguous(), self.bias, self.scale)
"""
OPS = b"""{"version": 1, "ops": [{
  "name": "bias_relu", "launcher": "ws_bias_relu",
  "inputs": [{"name": "x", "kind": "tensor", "dtype": "float32", "ndim": 2},
             {"name": "bias", "kind": "tensor", "dtype": "float32", "ndim": 1},
             {"name": "scale", "kind": "float"}],
  "outputs": [{"name": "y", "dtype": "float32", "shape": ["x.0", "x.1"]}],
  "arguments": ["x", "bias", "y", "x.0", "x.1", "scale"]}]}
"""
KERNEL = b"""#include <cstdint>
#include "clamp.h"

extern "C" void ws_bias_relu(const float *x, const float *bias, float *y, int64_t rows, int64_t columns,
                             double scale) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      y[row * columns + column] = positive(x[row * columns + column] + bias[column]) * (float)scale;
}
"""
HEADER = b"""#pragma once
static inline float positive(float value) { return value > 0.0f ? value : 0.0f; }
"""
SNAPSHOT = {
    "model_new.py": MODEL_NEW,
    "kernels/ops.json": OPS,
    "kernels/bias_relu.cpp": KERNEL,
    "kernels/clamp.h": HEADER,
}
VERDICT = MESSAGES["timed_evaluation"]
assert isinstance(VERDICT, Evaluation)


def origin(**changes: object) -> Origin:
    base = Origin("Bias + ReLU", {"model.py": MODEL}, SNAPSHOT, VERDICT, session={"turn": 3})
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_the_kernels_are_the_verified_bytes():
    files = project_files(origin())
    assert files["csrc/kernels/bias_relu.cpp"] == KERNEL
    assert files["csrc/kernels/clamp.h"] == HEADER
    assert files["csrc/kernels/ops.json"] == OPS
    assert files["src/bias_relu_cpu/reference.py"] == MODEL


def test_the_python_files_parse_and_the_project_names_itself():
    files = project_files(origin())
    for path, content in files.items():
        if path.endswith(".py"):
            ast.parse(content, path)
    project = tomllib.loads(files["pyproject.toml"].decode())["project"]
    assert project["name"] == "bias-relu-cpu"
    assert project["version"] == "1.0+g2222222"


def test_the_evidence_is_the_verdict_itself():
    files = project_files(origin())
    assert from_json(Evaluation, files["evidence/verdict.json"]) == VERDICT
    assert json.loads(files["evidence/session.json"]) == {"turn": 3}


def test_the_readme_tells_both_speed_ups_with_their_intervals():
    text = project_files(origin(speedup_compile=Ratio(1.8, 1.7, 1.9, 7)))["README.md"].decode()
    assert "| speed-up against eager | 3.00x (2.75 to 3.25) |" in text
    assert "| speed-up against torch.compile | 1.80x (1.70 to 1.90) |" in text
    assert "not certified" not in text


def test_what_is_not_measured_is_said():
    assert in_words(None) == "not measured yet"


def test_a_title_with_quotes_and_dollars_breaks_nothing():
    files = project_files(origin(title='a "b" $c ${d} \\ | ä'))
    tomllib.loads(files["pyproject.toml"].decode())
    assert files["README.md"].decode().startswith('# a "b" $c ${d} \\ | ä\n')


def test_equal_inputs_give_equal_bytes():
    once, twice = (pack(with_sums(project_files(origin())), "p") for _ in range(2))
    assert once == twice


@pytest.mark.parametrize(
    ("snapshot", "complaint"),
    [
        ({"model_new.py": MODEL_NEW}, "no kernels of its own"),
        ({"model_new.py": MODEL_NEW, "kernels/a.cpp": KERNEL}, "hand-written binding"),
        ({"kernels/ops.json": OPS, "kernels/a.cpp": KERNEL}, "model_new.py is missing"),
        ({**SNAPSHOT, "model_new.py": b"\xff"}, "model_new.py is not UTF-8"),
        ({**SNAPSHOT, "kernels/ops.json": b"{}"}, "OpManifest: field 'ops' is missing"),
        (
            {**SNAPSHOT, "kernels/ops.json": OPS.replace(b'"bias_relu"', b'"lambda"')},
            "choose another name",
        ),
    ],
)
def test_what_cannot_leave_is_named(snapshot: dict[str, bytes], complaint: str):
    with pytest.raises(NotExportable, match=complaint):
        project_files(origin(snapshot=snapshot))


def test_only_what_passed_leaves():
    failed = dataclasses.replace(VERDICT, status=Status.INCORRECT, timing=None, held=False)
    with pytest.raises(NotExportable, match="Only a snapshot that passed"):
        project_files(origin(verdict=failed))
    with pytest.raises(NotExportable, match="target cpu"):
        project_files(origin(verdict=dataclasses.replace(VERDICT, target=Target.CUDA)))


def test_the_kernels_are_compiled_with_the_judges_own_flags():
    recipes = CpuRecipes(find_compiler(), ToolLimits())
    run = recipes.kernel("kernels/bias_relu.cpp", SNAPSHOT)
    assert set(CPU_COMPILE_FLAGS) <= set(run.argv)


@pytest.mark.slow
def test_the_zip_builds_and_computes_what_the_model_does(tmp_path: Path):
    archive = pack(with_sums(project_files(origin())), "bias-relu")
    called = build_and_call(archive, tmp_path, os.environ)
    assert called.package == "bias_relu_cpu"
    assert called.outputs == 1
    assert called.relative_error < 1e-6
