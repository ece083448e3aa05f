"""ws_math.h against the double-precision functions of torch."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

import agent.codegen

TEMPLATES = Path(agent.codegen.__file__).parent / "templates"

# name -> (largest error in units in the last place, lower and upper end of the arguments)
FUNCTIONS = {
    "exp": (1.5, -86.5, 88.7),
    "exp2": (2.0, -125.0, 127.9),
    "expm1": (2.0, -86.0, 88.7),
    "log": (1.5, 1e-37, 3e38),
    "log2": (2.5, 1e-37, 3e38),
    "log10": (2.5, 1e-37, 3e38),
    "log1p": (2.0, -0.9999, 3e38),
    "tanh": (6.0, -30.0, 30.0),
    "erf": (6.0, -8.0, 8.0),
    "sigmoid": (4.0, -80.0, 90.0),
    "sqrt": (0.6, 0.0, 3e38),
    "rsqrt": (2.0, 1e-37, 3e38),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elementary")
    lines = ['#pragma GCC optimize("no-trapping-math")', '#include "ws_math.h"']
    for name in FUNCTIONS:
        lines.append(
            f'extern "C" void try_{name}(const float *x, float *y, int64_t n) {{\n'
            f"#pragma omp simd\n  for (int64_t i = 0; i < n; ++i) y[i] = ws::{name}(x[i]);\n}}"
        )
    (folder / "try.cpp").write_text("\n".join(lines) + "\n")
    command = [
        "g++",
        "-std=c++17",
        "-O3",
        "-march=native",
        "-fno-math-errno",
        "-fopenmp",
        "-shared",
        "-fPIC",
    ]
    command += ["-fopt-info-vec-optimized", f"-I{TEMPLATES}", "try.cpp", "-o", "try.so"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return ctypes.CDLL(str(folder / "try.so")), done.stderr


def call(library, name, x):
    y = torch.empty_like(x)
    function = getattr(library[0], f"try_{name}")
    function(
        ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(x.numel())
    )
    return y


def arguments(low, high):
    """Dense around zero and over all magnitudes, within the given range."""
    torch.manual_seed(3)
    wide = torch.logspace(-37, 38.4, 200_000)
    x = torch.cat([torch.linspace(-90, 90, 500_001), torch.randn(200_000), wide, -wide])
    return x[(x >= low) & (x <= high)].contiguous()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_accurate_to_a_few_units_in_the_last_place(library, name):
    limit, low, high = FUNCTIONS[name]
    x = arguments(low, high)
    exact = getattr(torch, name)(x.double())
    unit = torch.exp2(torch.floor(torch.log2(exact.abs().clamp_min(2.0**-126)))) * 2.0**-23
    error = (call(library, name, x).double() - exact).abs() / unit
    assert float(error.max()) <= limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits_and_nan_come_out_as_in_torch(library, name):
    inf = float("inf")
    x = torch.tensor([0.0, -0.0, inf, -inf, float("nan"), 1.0, -1.0, 89.0, -110.0, 200.0, -200.0])
    made, wanted = call(library, name, x), getattr(torch, name)(x)
    torch.testing.assert_close(made, wanted, rtol=1e-6, atol=1e-37, equal_nan=True)


def test_the_compiler_vectorises_all_of_them(library):
    lines = {line.split(":")[1] for line in library[1].splitlines() if "loop vectorized" in line}
    assert len(lines) == len(FUNCTIONS)
