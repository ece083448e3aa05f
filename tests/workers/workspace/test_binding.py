"""The generated binding: its text, and what it does when torch has loaded it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workers.evaluation.build_toolchain import find_compiler, find_torch
from workers.protocol.codec import ProtocolError
from workers.protocol.ops import OpManifest, parse_manifest
from workers.protocol.problem import Target
from workers.workspace.binding import (
    TORCH_TARGET_VERSION,
    binding_source,
    launcher_prototypes,
    op_schema,
    stub_source,
)

NAMESPACE = "binding_test"


def _op(name: str, **fields: object) -> dict[str, object]:
    base: dict[str, object] = {
        "name": name,
        "launcher": f"ws_{name}",
        "inputs": [],
        "outputs": [],
        "arguments": [],
    }
    return {**base, **fields}


def _tensor(name: str, dtype: str = "float32", ndim: int | None = None) -> dict[str, object]:
    return {"name": name, "kind": "tensor", "dtype": dtype, "ndim": ndim}


def _manifest(*ops: dict[str, object]) -> OpManifest:
    return parse_manifest(json.dumps({"ops": list(ops)}))


MANIFEST = _manifest(
    _op(
        "scale_bias",
        inputs=[_tensor("x", ndim=2), _tensor("bias", ndim=1), {"name": "scale", "kind": "float"}],
        outputs=[{"name": "y", "dtype": "float32", "shape": ["x.0", "x.1"]}],
        scratch=[{"name": "tmp", "bytes": "4 * x.1"}],
        arguments=["x", "bias", "y", "tmp", "x.0", "x.1", "scale"],
    ),
    _op(
        "halves",
        inputs=[_tensor("in"), {"name": "n", "kind": "int"}, {"name": "flag", "kind": "bool"}],
        outputs=[
            {"name": "first", "dtype": "float32", "shape": ["(in.numel - n) / 2"]},
            {"name": "count", "dtype": "int64", "shape": []},
        ],
        arguments=["in", "first", "count", "in.numel", "n", "flag"],
    ),
    _op(
        "counted",
        inputs=[{"name": "n", "kind": "int"}],
        outputs=[{"name": "y", "dtype": "float64", "shape": ["n"]}],
        arguments=["y", "n"],
    ),
    _op(
        "bits",
        inputs=[_tensor("x", "bfloat16"), _tensor("mask", "bool")],
        outputs=[{"name": "y", "dtype": "bfloat16", "shape": ["x.numel"]}],
        arguments=["x", "mask", "y", "x.numel"],
    ),
)

KERNELS = """
#include <cstdint>
extern "C" void ws_scale_bias(const float *x, const float *bias, float *y, void *tmp, int64_t n, int64_t m,
                              double scale) {
  float *scaled = static_cast<float *>(tmp);
  for (int64_t j = 0; j < m; j++) scaled[j] = bias[j] * static_cast<float>(scale);
  for (int64_t i = 0; i < n * m; i++) y[i] = x[i] + scaled[i % m];
}
extern "C" void ws_halves(const float *in, float *first, int64_t *count, int64_t total, int64_t n, bool flag) {
  for (int64_t i = 0; i < (total - n) / 2; i++) first[i] = in[i];
  *count = flag ? total : -total;
}
extern "C" void ws_counted(double *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = 0.5 * static_cast<double>(i);
}
extern "C" void ws_bits(const uint16_t *x, const bool *mask, uint16_t *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? x[i] : 0;
}
"""

CALLS = """
import json, sys, torch
torch.ops.load_library(sys.argv[1])
ops = getattr(torch.ops, sys.argv[2])
x, bias = torch.randn(3, 5), torch.randn(5)
in_ = torch.arange(7.0)
first, count = ops.halves(in_, 2, True)
b = torch.randn(4).to(torch.bfloat16)
mask = torch.tensor([True, False, True, False])
values = {
    "scale_bias": torch.allclose(ops.scale_bias(x, bias, 2.0), x + 2 * bias),
    "tuple": first.tolist() == [0.0, 1.0] and count.item() == 7 and count.shape == (),
    "flag": ops.halves(in_, 2, False)[1].item() == -7,
    "counted": ops.counted(3).tolist() == [0.0, 0.5, 1.0],
    "dtype": ops.counted(1).dtype == torch.float64,
    "bits": torch.equal(ops.bits(b, mask), b * mask),
    "empty": ops.scale_bias(torch.zeros(0, 5), bias, 1.0).shape == (0, 5) and ops.counted(0).numel() == 0,
    "inputs kept": torch.equal(in_, torch.arange(7.0)),
    "many": all(torch.equal(ops.counted(9), torch.arange(9) * 0.5) for _ in range(2000)),
}
sentences = {}
for name, call in {
    "dtype": lambda: ops.scale_bias(x.double(), bias, 1.0),
    "ndim": lambda: ops.scale_bias(x, x, 1.0),
    "layout": lambda: ops.scale_bias(torch.randn(5, 3).t(), bias, 1.0),
    "device": lambda: ops.scale_bias(x.to("meta"), bias, 1.0),
    "negative": lambda: ops.counted(-1),
    "floor": lambda: ops.halves(torch.zeros(1), 2, True),
    "huge": lambda: ops.counted(1 << 60),
}.items():
    try:
        call()
        sentences[name] = "no error"
    except RuntimeError as error:
        sentences[name] = str(error)
print(json.dumps([values, sentences]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bool], dict[str, str]]:
    """Compile, load and call the binding in a process of its own."""
    folder = tmp_path_factory.mktemp("binding")
    compiler, torch = find_compiler(), find_torch(Path(sys.executable))
    (folder / "binding.cpp").write_text(binding_source(MANIFEST, NAMESPACE, Target.CPU))
    (folder / "kernels.cpp").write_text(KERNELS)
    library = folder / "library.so"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-DTORCH_TARGET_VERSION={TORCH_TARGET_VERSION}", "-isystem", str(torch.include)]
    sources = [str(folder / "binding.cpp"), str(folder / "kernels.cpp")]
    linking = ["-L", str(torch.libraries), "-ltorch_cpu", "-lc10", "-o", str(library)]
    subprocess.run([str(compiler.path), *flags, *sources, *linking], check=True, timeout=120)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALLS, str(library), NAMESPACE],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    values, sentences = json.loads(run.stdout)
    return values, sentences


def test_values_are_right(answers):
    values, _ = answers
    assert [name for name, right in values.items() if not right] == []


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("dtype", "scale_bias: x must have dtype float32, not float64"),
        ("ndim", "scale_bias: bias must have 1 dimensions, not 2"),
        ("layout", "scale_bias: x must be contiguous"),
        ("device", "scale_bias: x must be on cpu"),
        ("negative", "counted: y would get the size -1"),
        ("floor", "halves: first would get the size -1"),
        ("huge", "counted: y could not be allocated"),
    ],
)
def test_wrong_arguments_get_a_sentence_that_names_op_and_argument(answers, case, words):
    _, sentences = answers
    assert sentences[case].startswith(words)


def test_the_same_manifest_gives_the_same_text():
    for target in Target:
        assert binding_source(MANIFEST, "a", target) == binding_source(MANIFEST, "a", target)
        assert stub_source(MANIFEST, target) == stub_source(MANIFEST, target)


def test_schemas_are_torch_s():
    assert [op_schema(op) for op in MANIFEST.ops] == [
        "scale_bias(Tensor x, Tensor bias, float scale) -> Tensor",
        "halves(Tensor in_, int n, bool flag) -> (Tensor, Tensor)",
        "counted(int n) -> Tensor",
        "bits(Tensor x, Tensor mask) -> Tensor",
    ]


def test_prototypes_follow_the_order_of_arguments():
    first = launcher_prototypes(MANIFEST, Target.CPU)[0]
    assert first == (
        "void ws_scale_bias(const float *x, const float *bias, float *y, void *tmp, int64_t x_0, int64_t x_1, "
        "double scale)"
    )


def test_stubs_compile_and_offer_every_launcher(tmp_path):
    source = tmp_path / "stub.cpp"
    source.write_text(stub_source(MANIFEST, Target.CPU))
    compiler = str(find_compiler().path)
    subprocess.run(
        [compiler, "-Wall", "-c", str(source), "-o", f"{tmp_path}/stub.o"], check=True, timeout=60
    )


def test_cuda_bindings_take_the_current_stream_and_device():
    op = _op(
        "add",
        inputs=[_tensor("x"), _tensor("y")],
        outputs=[{"name": "z", "dtype": "float16", "shape": ["x.numel"]}],
        arguments=["x", "y", "z", "x.numel", "stream"],
    )
    text = binding_source(_manifest(op), "a", Target.CUDA)
    assert "aoti_torch_get_current_cuda_stream" in text
    assert "DeviceGuard guard(device)" in text
    assert (
        "void ws_add(const float *x, const float *y, uint16_t *z, int64_t x_numel, void *stream);"
        in text
    )


def test_cuda_bindings_compile_against_the_headers_of_any_torch(tmp_path):
    op = _op(
        "add",
        inputs=[_tensor("x"), _tensor("y")],
        outputs=[{"name": "z", "dtype": "float16", "shape": ["x.numel"]}],
        arguments=["x", "y", "z", "x.numel", "stream"],
    )
    source = tmp_path / "binding.cpp"
    source.write_text(binding_source(_manifest(op), "a", Target.CUDA))
    torch = find_torch(Path(sys.executable))
    flags = [
        "-std=c++17",
        "-DUSE_CUDA",
        f"-DTORCH_TARGET_VERSION={TORCH_TARGET_VERSION}",
        "-Wall",
        "-Werror",
    ]
    command = [
        str(find_compiler().path),
        *flags,
        "-isystem",
        str(torch.include),
        "-fsyntax-only",
        str(source),
    ]
    subprocess.run(command, check=True, timeout=60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arguments": ["y", "stream"]}, "cuda target only"),
        ({"launcher": "while"}, "word of C"),
        ({"name": "lambda"}, "choose another name"),
        (
            {"outputs": [{"name": "y", "dtype": "float32", "shape": ["1"] * 17}]},
            "16 dimensions at most",
        ),
        ({"outputs": [{"name": "y", "dtype": "float32", "shape": ["9" * 30]}]}, "too large"),
    ],
)
def test_it_refuses_what_cannot_be_bound(changes, words):
    op = _op("fine", outputs=[{"name": "y", "dtype": "float32", "shape": ["1"]}], arguments=["y"])
    with pytest.raises(ProtocolError, match=words):
        binding_source(_manifest({**op, **changes}), "a", Target.CPU)


def test_it_refuses_a_namespace_that_is_no_name():
    with pytest.raises(ProtocolError, match="namespace"):
        binding_source(MANIFEST, "a; b", Target.CPU)
