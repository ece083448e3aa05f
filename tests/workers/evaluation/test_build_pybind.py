"""Hand-written bindings: built as one Python extension, held to the same rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workers.artifacts import FolderStore, put_files
from workers.evaluation.build import build
from workers.evaluation.config import WorkerConfig
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildStatus, EvaluateRequest
from workers.sandbox import choose

KERNEL = """\
#include <cstdint>
extern "C" void twice(const float *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""
EXTENSION = """\
#include "binding_registry.h"

#include <cstdint>

extern "C" void twice(const float *x, float *y, int64_t n);

static void run(uintptr_t x, uintptr_t y, int64_t n) {
  twice(reinterpret_cast<const float *>(x), reinterpret_cast<float *>(y), n);
}

static void add_twice(pybind11::module &m) { m.def("twice", &run); }

REGISTER_BINDING(twice, add_twice);

PYBIND11_MODULE(cuda_extension, m) { BindingRegistry::getInstance().applyBindings(m); }
"""
# What the audit sees of a binding is its symbols; this one has them without a header that takes seconds.
BINDING = """\
#include <cstdint>
extern "C" void twice(const float *x, float *y, int64_t n);
namespace at { namespace _ops { struct OPERATOR { static void call(); }; } }
void run(const float *x, float *y, int64_t n) {
  at::_ops::OPERATOR::call();
  twice(x, y, n);
}
"""
CALL = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import cuda_extension
x, y = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 3)()
cuda_extension.twice(ctypes.addressof(x), ctypes.addressof(y), 3)
print(list(y))
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> WorkerConfig:
    if problem := choose("auto").problem:
        pytest.skip(problem)
    home = tmp_path_factory.mktemp("home")
    return WorkerConfig(home / "artifacts", home / "cache", Path(sys.executable))


def run(config, files, toml=""):
    store = FolderStore(config.artifacts)
    problem = put_files(store, {"model.py": b"", "problem.toml": toml.encode()})
    digest = put_files(store, {path: text.encode() for path, text in files.items()})
    return build(EvaluateRequest(problem, digest, (Stage.BUILD,)), store, config)


def test_it_becomes_an_extension_and_a_stub_that_answers_nothing(config, tmp_path):
    result = run(config, {"kernels/twice.cpp": KERNEL, "binding.cpp": EXTENSION})
    assert result.status is BuildStatus.BUILT, result.summary
    assert (result.style, result.namespace) == ("pybind", "")
    assert "cannot be exported" in result.summary
    said = []
    for digest in (result.library, result.stub_library):
        (tmp_path / "cuda_extension.so").write_bytes(FolderStore(config.artifacts).get(digest))
        argv = [sys.executable, "-W", "ignore", "-c", f"import torch\n{CALL}", str(tmp_path)]
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        said.append(answer.stdout.strip() or answer.stderr)
    assert said == ["[2.0, 4.0, 6.0]", "[0.0, 0.0, 0.0]"]


def test_computing_with_torch_in_the_binding_is_rejected_where_only_kernels_may_compute(config):
    files = {
        "kernels/twice.cpp": KERNEL,
        "binding.cpp": BINDING.replace("OPERATOR", "matmul"),
    }
    result = run(config, files)
    assert result.status is BuildStatus.REJECTED
    assert "matmul" in result.summary
    assert result.diagnostics[-1].file == "binding.cpp"
    allowed = run(config, files, 'op_policy = "torch_allowed"\n')
    assert allowed.status is BuildStatus.BUILT, allowed.summary


def test_allocating_with_torch_in_the_binding_is_fine(config):
    binding = BINDING.replace("OPERATOR", "empty_memory_format")
    files = {"kernels/twice.cpp": KERNEL, "binding.cpp": binding}
    assert run(config, files).status is BuildStatus.BUILT


def test_kernels_are_held_to_the_same_rules(config):
    kernel = KERNEL.replace("{\n  for", '{\n  system("id");\n  for').replace(
        "#include <cstdint>\n", '#include <cstdint>\nextern "C" int system(const char *);\n'
    )
    binding = BINDING.replace("OPERATOR", "empty_memory_format")
    result = run(config, {"kernels/twice.cpp": kernel, "binding.cpp": binding})
    assert result.status is BuildStatus.REJECTED
    assert "system" in result.summary
