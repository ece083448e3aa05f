"""The builder on honest and broken snapshots: results, diagnostics, caches."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.artifacts import FolderStore, put_files
from workers.evaluation import build_toolchain
from workers.evaluation.build import BuildLimits, build
from workers.evaluation.build_elf import read_library
from workers.evaluation.build_tools import ToolLimits
from workers.evaluation.config import WorkerConfig
from workers.protocol.diagnostics import Severity
from workers.protocol.problem import Stage, Target
from workers.protocol.requests import BuildResult, BuildStatus, EvaluateRequest
from workers.sandbox import choose

MANIFEST = {
    "ops": [
        {
            "name": "shift",
            "launcher": "ws_shift",
            "inputs": [
                {"name": "x", "kind": "tensor", "dtype": "float32"},
                {"name": "by", "kind": "float"},
            ],
            "outputs": [{"name": "y", "dtype": "float32", "shape": ["x.numel"]}],
            "arguments": ["x", "y", "x.numel", "by"],
        }
    ]
}
KERNEL = """\
#include <cstdint>
#include "shift.h"
extern "C" void ws_shift(const float *x, float *y, int64_t n, double by) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) y[i] = shifted(x[i], by);
}
"""
HEADER = "#pragma once\ninline float shifted(float x, double by) { return x + static_cast<float>(by); }\n"
FILES = {
    "kernels/ops.json": json.dumps(MANIFEST),
    "kernels/shift.cpp": KERNEL,
    "kernels/shift.h": HEADER,
    "model_new.py": "import kernel_ops\n",
}

CALL = """
import sys, torch
torch.ops.load_library(sys.argv[2])
x = torch.arange(5.0)
print(torch.equal(getattr(torch.ops, sys.argv[1]).shift(x, 2.0), x + 2))
"""

Build = Callable[..., BuildResult]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> WorkerConfig:
    if problem := choose("auto").problem:
        pytest.skip(problem)
    home = tmp_path_factory.mktemp("home")
    return WorkerConfig(home / "artifacts", home / "cache", Path(sys.executable))


@pytest.fixture
def run(config: WorkerConfig) -> Build:
    store = FolderStore(config.artifacts)
    problem = put_files(store, {"model.py": b"", "problem.toml": b""})

    def call(changes: dict[str, str] | None = None, **more: object) -> BuildResult:
        files = {path: text.encode() for path, text in {**FILES, **(changes or {})}.items() if text}
        request = EvaluateRequest(problem, put_files(store, files), (Stage.BUILD,))
        own = dataclasses.replace(config, **more.pop("config", {}))  # type: ignore[arg-type]
        return build(request, store, own, **more)  # type: ignore[arg-type]

    return call


def test_a_manifest_becomes_a_library_that_torch_calls_rightly(run, config, tmp_path):
    result = run()
    assert result.status is BuildStatus.BUILT, result.summary
    assert (result.style, result.namespace[:10]) == ("manifest", "warpsmith_")
    store = FolderStore(config.artifacts)
    started = []
    for digest in (result.library, result.stub_library):
        path = tmp_path / f"{digest}.so"
        path.write_bytes(store.get(digest))
        argv = [sys.executable, "-W", "ignore", "-c", CALL, result.namespace, str(path)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=60)[0].strip() for process in started]
    assert said == ["True", "False"], "the kernels answer rightly, their stubs do not"


def test_the_library_names_torch_by_its_name_and_no_path_of_this_machine(run, config):
    result = run()
    content = FolderStore(config.artifacts).get(result.library)
    symbols = read_library(content)
    assert "libtorch_cpu.so" in symbols.needed
    assert "ws_shift" in symbols.defined
    assert symbols.run_paths == ()
    for place in (config.cache, Path(sys.prefix), Path(sys.base_prefix)):
        assert str(place).encode() not in content


def test_the_same_files_are_answered_from_the_cache_at_once(run):
    first = run()
    started = time.monotonic()
    second = run()
    assert time.monotonic() - started < 0.05
    assert second.compiled_objects == 0
    assert (second.library, second.log, second.diagnostics) == (
        first.library,
        first.log,
        first.diagnostics,
    )


def test_a_changed_kernel_compiles_that_kernel_only(run):
    run()
    changed = run({"kernels/shift.cpp": KERNEL + "// another line\nint ws_extra;\n"})
    assert changed.status is BuildStatus.BUILT
    assert changed.compiled_objects == 2, "the kernel and the link"


def test_a_changed_header_compiles_its_users_again(run):
    first = run()
    changed = run({"kernels/shift.h": HEADER.replace("x + ", "x - ")})
    assert changed.compiled_objects == 2
    assert changed.library != first.library


def test_diagnostics_are_placed_in_the_workspace(run, config):
    result = run(
        {
            "kernels/shift.cpp": KERNEL.replace("shifted(x[i], by)", "shifted(x[i], bye)")
            + "static int spare;\n"
        }
    )
    assert result.status is BuildStatus.COMPILE_ERROR
    error = next(d for d in result.diagnostics if d.severity is Severity.ERROR)
    assert (error.file, error.line, error.column) == ("kernels/shift.cpp", 5, 56)
    assert "bye" in error.message
    assert error.tool in ("g++", "clang++")
    warning = next(d for d in result.diagnostics if d.severity is Severity.WARNING)
    assert (warning.line, warning.code) == (7, "-Wunused-variable")
    assert "kernels/shift.cpp:5" in result.summary
    log = FolderStore(config.artifacts).get(result.log).decode()
    assert "'bye' was not declared" in log
    assert str(config.cache) not in log + result.summary


def test_failures_are_cached(run):
    broken = {"kernels/shift.cpp": "int broken\n"}
    first = run(broken)
    started = time.monotonic()
    second = run(broken)
    assert time.monotonic() - started < 0.05
    assert (first.status, second.status) == (BuildStatus.COMPILE_ERROR,) * 2
    assert first.diagnostics == second.diagnostics


def test_an_error_in_a_header_names_the_header(run):
    result = run({"kernels/shift.h": "inline float shifted(float x, double) { return y; }\n"})
    error = next(d for d in result.diagnostics if d.severity is Severity.ERROR)
    assert (error.file, error.line) == ("kernels/shift.h", 1)


def test_a_missing_launcher_is_named(run):
    result = run({"kernels/shift.cpp": "int nothing;\n"})
    assert result.status is BuildStatus.LINK_ERROR
    assert "ws_shift" in result.summary
    assert "kernels/" in result.summary


def test_a_launcher_without_extern_c_is_recognised(run):
    result = run({"kernels/shift.cpp": KERNEL.replace('extern "C" ', "")})
    assert result.status is BuildStatus.LINK_ERROR
    assert 'extern "C"' in result.summary


def test_an_undefined_function_is_a_link_error_with_its_file(run):
    text = KERNEL.replace("#pragma", "  extern float lost(int);\n  y[0] = lost(1);\n#pragma")
    result = run({"kernels/shift.cpp": text})
    assert result.status is BuildStatus.LINK_ERROR
    error = next(d for d in result.diagnostics if "lost" in d.message)
    assert (error.tool, error.file) == ("ld", "kernels/shift.cpp")


def test_two_sources_link_together_and_their_order_does_not_matter(run):
    more = {"kernels/a.cpp": "float twice(float x) { return 2 * x; }\n"}
    text = KERNEL.replace("shifted(x[i], by)", "twice(x[i])")
    text = text.replace('extern "C"', 'float twice(float x);\nextern "C"', 1)
    assert run({**more, "kernels/shift.cpp": text}).status is BuildStatus.BUILT


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernels/ops.json": "{"}, "not JSON"),
        ({"kernels/ops.json": '{"version": 1}'}, "'ops' is missing"),
        (
            {"kernels/ops.json": json.dumps(MANIFEST).replace('"x.numel"]', '"x.numel +"]')},
            "ends too early",
        ),
        ({"kernels/ops.json": ""}, "nothing can call kernels/shift.cpp"),
    ],
)
def test_a_broken_manifest_gets_one_sentence(run, changes, words):
    result = run(changes)
    assert result.status is BuildStatus.COMPILE_ERROR
    assert words in result.summary
    assert result.diagnostics[0].file == "kernels/ops.json"
    assert result.diagnostics[0].tool == "manifest"


def test_no_kernels_means_nothing_to_build(run):
    result = run(dict.fromkeys(["kernels/ops.json", "kernels/shift.cpp", "kernels/shift.h"], ""))
    assert (result.status, result.style, result.library) == (BuildStatus.BUILT, "python", "")


def test_both_sandboxes_build_the_same_bytes(run, tmp_path):
    if problem := choose("namespaces").problem:
        pytest.skip(problem)
    fresh = run(config={"sandbox": "namespaces", "cache": tmp_path / "cache"})
    assert fresh.compiled_objects > 0
    assert fresh.library == run().library


def test_unprotected_builds_the_same_bytes(run, tmp_path):
    fresh = run(config={"sandbox": "none", "cache": tmp_path / "cache"})
    assert fresh.library == run().library, fresh.summary


BOMB = """\
template <int D, long I> struct T { static constexpr long v = T<D - 1, 2 * I>::v + T<D - 1, 2 * I + 1>::v; };
template <long I> struct T<0, I> { static constexpr long v = I; };
long z = T<40, 0>::v;
"""


def test_a_template_bomb_ends_in_time(run):
    limits = BuildLimits(ToolLimits(wall_s=2.0))
    started = time.monotonic()
    result = run({"kernels/shift.cpp": BOMB + KERNEL}, limits=limits)
    assert time.monotonic() - started < 10
    assert result.status is BuildStatus.TIMEOUT
    assert "kernels/shift.cpp" in result.summary


def test_processor_time_is_bounded_as_well_and_that_is_remembered(run):
    limits = BuildLimits(ToolLimits(wall_s=30.0, cpu_s=1))
    first = run({"kernels/shift.cpp": BOMB + KERNEL}, limits=limits)
    assert first.status is BuildStatus.TIMEOUT
    again = run({"kernels/shift.cpp": BOMB + KERNEL}, limits=limits)
    assert (again.status, again.compiled_objects) == (BuildStatus.TIMEOUT, 0)


def test_a_compiler_that_needs_too_much_memory_is_told_apart(run):
    limits = BuildLimits(ToolLimits(memory_bytes=150 << 20, wall_s=30.0))
    result = run({"kernels/shift.cpp": BOMB + KERNEL}, limits=limits)
    assert result.status is BuildStatus.OUT_OF_MEMORY, result.summary


def test_a_missing_compiler_says_what_to_install(run, config, monkeypatch, tmp_path):
    build_toolchain.find_compiler.cache_clear()
    monkeypatch.setattr(build_toolchain, "SYSTEM_PATH", str(tmp_path))
    try:
        result = run(config={"cache": tmp_path / "cache"})
    finally:
        build_toolchain.find_compiler.cache_clear()
    assert result.status is BuildStatus.INFRASTRUCTURE
    assert "apt-get install g++" in result.summary


def test_an_interpreter_without_torch_says_what_to_install(run, tmp_path):
    bare = tmp_path / "bare"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60
    )
    result = run(config={"python": bare / "bin/python", "cache": tmp_path / "cache"})
    assert result.status is BuildStatus.INFRASTRUCTURE
    assert "pip install torch" in result.summary


def test_a_target_that_this_builder_lacks_is_no_fault_of_the_snapshot(config):
    store = FolderStore(config.artifacts)
    empty = put_files(store, {"model.py": b""})
    request = EvaluateRequest(empty, empty, (Stage.BUILD,), target=Target.CUDA)
    assert build(request, store, config).status is BuildStatus.INFRASTRUCTURE


def test_missing_files_are_no_fault_of_the_snapshot(config):
    store = FolderStore(config.artifacts)
    request = EvaluateRequest("0" * 64, "1" * 64, (Stage.BUILD,))
    assert build(request, store, config).status is BuildStatus.INFRASTRUCTURE


def test_a_deleted_artifact_is_made_again(run, config):
    first = run()
    (config.artifacts / "objects" / first.library[:2] / first.library[2:]).unlink()
    assert run().library == first.library
    assert FolderStore(config.artifacts).has(first.library)
