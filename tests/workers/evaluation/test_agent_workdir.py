"""A folder in the format of CUDA Agent's `agent_workdir`, with kernels for the processor, is judged as it is.

Its files are our own; what they show is the format: hand-written bindings against torch's headers that register
themselves, and three commands.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.sandbox import choose

ROOT = Path(__file__).resolve().parents[3]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor
        self.offset = nn.Parameter(torch.zeros(512))

    def forward(self, rows):
        return torch.relu(rows * self.factor + self.offset) * rows


def get_inputs():
    return [torch.randn(1024, 512)]


def get_init_inputs():
    return [1.5]
"""
MODEL_NEW = """\
import torch
from torch import nn

import cuda_extension


class ModelNew(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor
        self.offset = nn.Parameter(torch.zeros(512))

    def forward(self, rows):
        return cuda_extension.gated_rows(rows, self.offset, self.factor)
"""
KERNEL = """\
#include <cstdint>

extern "C" void gated_rows_launcher(float *__restrict y, const float *__restrict rows,
                                    const float *__restrict offset, float factor, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; i++) {
    const float *x = rows + i * width;
    for (int64_t j = 0; j < width; j++) {
      const float gate = x[j] * factor + offset[j];
      y[i * width + j] = (gate < 0.0f ? 0.0f : gate) * x[j];
    }
  }
}
"""
KERNEL_BINDING = """\
#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>

#include "../binding_registry.h"

extern "C" void gated_rows_launcher(float *, const float *, const float *, float, int64_t, int64_t);

static torch::Tensor gated_rows(torch::Tensor rows, torch::Tensor offset, double factor) {
  TORCH_CHECK(rows.is_contiguous() && offset.is_contiguous(), "gated_rows wants contiguous tensors");
  TORCH_CHECK(rows.dtype() == torch::kFloat32 && rows.dim() == 2, "gated_rows wants a float32 matrix");
  TORCH_CHECK(offset.numel() == rows.size(1), "offset must be as long as a row");
  auto y = torch::empty_like(rows);
  gated_rows_launcher(y.data_ptr<float>(), rows.data_ptr<float>(), offset.data_ptr<float>(),
                      static_cast<float>(factor), rows.size(0), rows.size(1));
  return y;
}

static void register_gated_rows(pybind11::module &m) {
  m.def("gated_rows", &gated_rows, py::arg("rows"), py::arg("offset"), py::arg("factor") = 1.0);
}

REGISTER_BINDING(gated_rows, register_gated_rows);
"""
REGISTRY = """\
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <map>
#include <string>

// One shared list of what each file of kernels/ adds to the module.
struct BindingRegistry {
  using Step = std::function<void(pybind11::module &)>;
  std::map<std::string, Step> steps;

  static BindingRegistry &getInstance() {
    static BindingRegistry one;
    return one;
  }
  void applyBindings(pybind11::module &m) {
    for (auto &[name, step] : steps) step(m);
  }
};

struct BindingEntry {
  BindingEntry(const char *name, BindingRegistry::Step step) {
    BindingRegistry::getInstance().steps.emplace(name, std::move(step));
  }
};

#define REGISTER_BINDING(name, adder) static BindingEntry entry_of_##name(#name, adder);
"""
BINDING = """\
#include "binding_registry.h"

PYBIND11_MODULE(cuda_extension, m) { BindingRegistry::getInstance().applyBindings(m); }
"""
FILES = {
    "model.py": MODEL,
    "model_new.py": MODEL_NEW,
    "kernels/gated_rows.cpp": KERNEL,
    "kernels/gated_rows_binding.cpp": KERNEL_BINDING,
    "binding.cpp": BINDING,
    "binding_registry.h": REGISTRY,
    # What else lies in such a folder is none of the judge's business.
    "SKILL.md": "Run `sudo python3 -m utils.verification`.\n",
    "utils/__init__.py": "",
    "utils/verification.py": "raise SystemExit('not ours')\n",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """One cache for all, since torch's headers take half a minute."""
    if problem := choose("auto").problem:
        pytest.skip(problem)
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "agent_workdir" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "agent_workdir"


def workers(home: Path, *words: str, given: str = "", timeout: int = 400):
    return subprocess.run(
        [sys.executable, "-m", "workers", *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(home), "HOME": str(home)},
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_it_is_built_verified_and_timed_unchanged(home, folder):
    done = workers(home, "evaluate", str(folder), "--json")
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    # A busy machine leaves the time open, and nothing else.
    assert verdict["status"] in ("passed", "unmeasured"), verdict["summary"]
    assert all(case["passed"] for case in verdict["correctness"]["cases"])
    assert verdict["findings"] == [] or not any(f["rejects"] for f in verdict["findings"])
    assert verdict["diagnostics"] == []
    assert contents(folder) == FILES


def test_its_three_commands_work_in_the_shell_and_leave_the_folder_alone(home, folder):
    commands = [
        "bash utils/compile.sh; echo compile $?",
        "python3 -c 'import torch, cuda_extension as e; print(e.gated_rows(torch.ones(2, 3), torch.ones(3), 2.0))'",
        "python3 -m utils.verification; echo verification $?",
        "sudo python3 -m utils.profiling --json >/tmp/verdict; echo profiling $?",
        'python3 -c \'import json; v = json.load(open("/tmp/verdict")); print(v["status"], v["stages"])\'',
    ]
    done = workers(home, "shell", str(folder), given="\n".join(commands) + "\n")
    assert done.returncode == 0, done.stderr
    assert "PASSED  Built 1 kernel source" in done.stdout
    assert "compile 0" in done.stdout
    # As after CUDA Agent's own command, the extension can be imported, to try its parameters.
    assert "[3., 3., 3.]" in done.stdout, done.stderr
    assert "PASSED  Correct on" in done.stdout
    assert "verification 0" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last in (
        "passed ['build', 'verify', 'time']",
        "unmeasured ['build', 'verify', 'time']",
    )
    assert contents(folder) == FILES


def test_the_fixed_files_may_be_left_out(home, folder):
    for name in ("binding.cpp", "binding_registry.h"):
        (folder / name).unlink()
    done = workers(home, "compile", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_of_the_instructions_compiles(home, folder):
    text = (ROOT / "workers" / "workspace" / "template" / "SKILL.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```cpp\n")[1:]]
    (binding,) = [block for block in blocks if "REGISTER_BINDING" in block]
    for path in [*folder.glob("kernels/*"), folder / "binding.cpp", folder / "binding_registry.h"]:
        path.unlink()
    (folder / "kernels" / "twice_binding.cpp").write_text(binding)
    (folder / "kernels" / "twice.cpp").write_text(
        "#include <cstdint>\n"
        'extern "C" void ws_twice(const float *x, float *y, int64_t n) {\n'
        "  for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];\n"
        "}\n"
    )
    done = workers(home, "compile", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr


def test_torch_in_a_kernel_is_refused_with_the_place_where_it_belongs(home, folder):
    (folder / "kernels" / "gated_rows.cpp").write_text(
        f"// mine\n#include <torch/types.h>\n{KERNEL}"
    )
    done = workers(home, "compile", str(folder))
    assert done.returncode == 1
    assert "kernels/gated_rows.cpp:2" in done.stdout
    assert "put what needs it into kernels/gated_rows_binding.cpp" in done.stdout


def test_what_the_shell_changes_comes_back_and_what_changes_outside_goes_in(home, folder):
    script = (
        "echo '// from inside' >>kernels/gated_rows.cpp; echo 1 >notes.txt; rm binding.cpp\n"
        "while ! grep -q outside kernels/more.h 2>/dev/null; do sleep 0.1; done; cat kernels/more.h\n"
        "exit 7\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "workers", "shell", str(folder)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(home), "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    (folder / "kernels" / "more.h").write_text("// from outside\n")
    said, _ = process.communicate(script, timeout=60)
    assert process.returncode == 7
    assert "// from outside" in said
    assert (folder / "kernels" / "gated_rows.cpp").read_text().endswith("// from inside\n")
    assert not (folder / "binding.cpp").exists()
    assert not (folder / "notes.txt").exists()
    assert (folder / "model.py").read_text() == MODEL


def test_one_command_can_be_run_and_ends_as_it_does(home, folder):
    done = workers(home, "shell", str(folder), "--run", "ls; exit 5", timeout=60)
    assert done.returncode == 5
    assert "model_new.py" in done.stdout


def test_a_terminal_gets_an_interactive_shell_with_job_control(home, folder):
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "workers", "shell", str(folder)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(home), "TERM": "dumb"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    said = ""

    def comes(words: str, seconds: float) -> bool:
        nonlocal said
        until = time.monotonic() + seconds
        while words not in said:
            if not select.select([outer], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
            said += os.read(outer, 4096).decode(errors="replace")
        said = said.partition(words)[2]
        return True

    def wait_for(words: str) -> None:
        assert comes(words, 40.0), said

    try:
        # As a person does: nothing is typed before the prompt is there.
        wait_for("$ ")
        os.write(outer, b"echo $((40 + 2)); sleep 60\n")
        wait_for("42\r")
        # Bash itself loses a key that comes before the program is there; a person waits and presses again.
        for _ in range(10):
            time.sleep(1.0)
            os.write(outer, b"\x03")
            if comes("$ ", 2.0):
                break
        else:
            pytest.fail(f"the program was not interrupted: {said}")
        time.sleep(0.2)
        os.write(outer, b"echo $((50 + 2))\n")
        wait_for("52\r")
        wait_for("$ ")
        os.write(outer, b"exit 5\n")
        assert process.wait(30) == 5
    finally:
        process.kill()
        process.wait()
        os.close(outer)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("shell", "/nowhere"), 2, "is not a folder"),
        (("shell", "{empty}"), 2, "has no model.py"),
    ],
)
def test_wrong_use_is_told_in_one_sentence(home, tmp_path, words, code, told):
    (tmp_path / "empty").mkdir()
    done = workers(home, *(w.format(empty=tmp_path / "empty") for w in words), timeout=60)
    assert done.returncode == code
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_where_no_sandbox_is_allowed_no_shell_is_opened(home, folder):
    done = subprocess.run(
        [sys.executable, "-m", "workers", "shell", str(folder), "--run", "id"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "WARPSMITH_HOME": str(home), "WARPSMITH_UNSANDBOXED": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert "WARPSMITH_UNSANDBOXED" in done.stderr
    assert done.stdout == ""
