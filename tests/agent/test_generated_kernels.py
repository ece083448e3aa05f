"""Generated kernels, compiled and called, give what torch gives in double precision."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from agent.codegen.ir import CannotGenerate
from agent.codegen.lowering import lower
from agent.codegen.plan import plan
from agent.codegen.rules import RULES
from agent.codegen.variant import Keep, Variant

X = {"x": "torch.randn(33, 70)"}

# body, inputs, constructor, kernels that the plan should need
MODELS = {
    "activations": (
        "a = F.relu(x) + F.gelu(x) + F.silu(x) * F.mish(x) + F.softplus(x) - F.elu(x, 0.7)\n"
        "b = F.leaky_relu(x, 0.2) + F.hardtanh(x) + F.relu6(x) + F.hardswish(x) + F.hardsigmoid(x)\n"
        "c = F.logsigmoid(x) + F.threshold(x, 0.1, -2.0) + F.celu(x, 1.3) + F.selu(x)\n"
        "return a, b, c, F.gelu(x, approximate='tanh')",
        X,
        "pass",
        1,
    ),
    "elementary": (
        "y = x.abs() + 0.5\n"
        "a = torch.exp(x) + torch.log(y) + torch.log2(y) + torch.log1p(y) + torch.expm1(x)\n"
        "b = torch.sqrt(y) + torch.rsqrt(y) + torch.tanh(x) + torch.sigmoid(x) + torch.erf(x)\n"
        "c = x.sign() + y.reciprocal() + x.floor() + x.ceil() + x.round() + torch.sin(x)\n"
        "return a, b, c, y**3, y**-2, y**1.7, 2**x, torch.lerp(x, y, 0.2), x.clamp(-0.5, 0.5)",
        X,
        "pass",
        1,
    ),
    "comparisons": (
        "return (x > 0) & (x < 1), ~(x >= 0.5), torch.where(x != 0, x, -x), torch.maximum(x, -x)",
        X,
        "pass",
        1,
    ),
    "broadcasting": (
        "return (x * self.a + self.b) / (c + 3), (x + c).mean()",
        {"x": "torch.randn(3, 5, 6, 7)", "c": "torch.randn(5, 1, 1).abs()"},
        "self.a = nn.Parameter(torch.randn(7))\nself.b = nn.Parameter(torch.randn(5, 1, 7))",
        None,
    ),
    "batch_norm": (
        "return F.relu(self.bn(x)) * self.s",
        {"x": "torch.randn(4, 8, 9, 10)"},
        "self.bn = nn.BatchNorm2d(8)\nself.s = nn.Parameter(torch.tensor(0.3))",
        1,
    ),
    "reductions": (
        "return (x.sum(-1), x.mean(-1, keepdim=True), x.amax(-1), x.amin(-1), x.var(-1),\n"
        "        x.std(-1, unbiased=False), torch.logsumexp(x, -1), F.normalize(x, dim=-1), x.norm(dim=-1))",
        X,
        "pass",
        1,
    ),
    "whole_tensor": ("return (x * x).mean(), x.sum(), x.max(), x / (x.std() + 1)", X, "pass", 1),
    "softmax_family": (
        "return F.log_softmax(x * 2, -1), F.softmin(x, -1), F.softmax(x, 1)",
        X,
        "pass",
        1,
    ),
    "written_out_norm": (
        "r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\n"
        "y = self.ln(x * r * self.w)\n"
        "y = y.masked_fill(self.m, float('-inf'))\n"
        "return torch.softmax(y / 3, dim=-1) * F.silu(g), F.gelu(x)",
        {**X, "g": "torch.randn(33, 70)"},
        "self.w = nn.Parameter(torch.ones(70))\nself.ln = nn.LayerNorm(70)\n"
        "self.register_buffer('m', torch.arange(70) % 3 == 0)",
        1,
    ),
    "two_dimensional_rows": (
        "return F.layer_norm(x * c, [6, 7], self.w, self.b) + x.mean((-2, -1), keepdim=True)",
        {"x": "torch.randn(3, 5, 6, 7)", "c": "torch.randn(6, 1)"},
        "self.w = nn.Parameter(torch.randn(6, 7))\nself.b = nn.Parameter(torch.randn(6, 7))",
        1,
    ),
    "strided_operands": (
        "a, b = x.chunk(2, -1)\nreturn a * F.silu(b), x[:, 3] + 1, x[::2, 5:20] * 2",
        {"x": "torch.randn(34, 70)"},
        "pass",
        None,
    ),
    "transposed_rows": (
        "return torch.softmax(x.transpose(1, 2) * 0.5, -1)",
        {"x": "torch.randn(4, 6, 8)"},
        "pass",
        1,
    ),
    "changing_shapes": (
        "y = x.view(2, -1, 70).exp()\nz = y.reshape(-1, 35)\n"
        "return z.sum(-1).view(2, -1), (z + 1).flatten()",
        {"x": "torch.randn(34, 70)"},
        "pass",
        1,
    ),
    "in_place": ("y = x * 2\ny += 1\ny.relu_()\nreturn y", X, "pass", 1),
    "double": (
        "return F.softmax(x.double(), -1), F.gelu(x.double()), F.layer_norm(x.double(), [70])",
        X,
        "pass",
        1,
    ),
    "integers": (
        "return x * 2 + 1, x.float() * 0.5, x > 3, x.float().mean(-1)",
        {"x": "torch.arange(60).reshape(6, 10)"},
        "pass",
        1,
    ),
    "long_rows": (
        "return x.sum(-1), torch.softmax(x, -1), x.var(-1)",
        {"x": "torch.randn(3, 20011)"},
        "pass",
        1,
    ),
    "infinities": (
        "a = torch.softmax(x.masked_fill(x > 0.5, float('-inf')), -1)\n"
        "return a, x.masked_fill(x > 2, float('nan')).amax(-1), x.masked_fill(x > -9, float('-inf')).softmax(-1)",
        X,
        "pass",
        1,
    ),
    "constants": (
        "return {'sum': x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) + self.k, 'x': x.view(5, 7)}",
        {"x": "torch.randn(7, 5)"},
        "self.register_buffer('k', torch.randn(5), persistent=False)",
        1,
    ),
    "deep_names": (
        "return [self.s(x), x.sum(-1) * torch.tanh(self.g)]",
        {"x": "torch.randn(4, 9, 16)"},
        "self.s = nn.Sequential(nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Softmax(-1))\n"
        "self.g = nn.Parameter(torch.tensor(0.7))",
        1,
    ),
    "across_rows": ("y = torch.softmax(x, -1)\nreturn y - y.mean()", X, "pass", 2),
    "prelu": (
        "return self.p(x) + self.q(x)",
        {"x": "torch.randn(3, 5, 6)"},
        "self.p = nn.PReLU()\nself.q = nn.PReLU(5)",
        1,
    ),
}

VARIANTS = (
    (Variant(), 1),
    (Variant(stream=True, keep=Keep.ALL, width=256, unroll=True), 2),
    (Variant(keep=Keep.NOTHING, width=512, chunk=64), 1),
)


def as_list(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return list(result.values()) if isinstance(result, dict) else list(result)


def in_double(module, inputs):
    doubled = [x.double() if x.is_floating_point() else x for x in inputs]
    return as_list(module.double()(*doubled))


def relative_error(actual, exact):
    finite = torch.isfinite(exact)
    difference = (actual.double() - exact)[finite]
    return float(
        difference.square().mean().sqrt() / exact[finite].square().mean().sqrt().clamp_min(1e-30)
    )


def assert_same(made, eager, exact):
    assert made.shape == eager.shape
    assert made.dtype == eager.dtype
    if not made.is_floating_point():
        assert torch.equal(made, eager)
        return
    assert torch.equal(torch.isnan(made), torch.isnan(eager))
    assert torch.equal(torch.isinf(made), torch.isinf(eager))
    if not torch.isfinite(exact).any():
        return
    limit = 1e-14 if made.dtype is torch.float64 else 1e-6
    # Full sums cancel: eager's own error is the measure there.
    assert relative_error(made, exact) <= max(limit, 3 * relative_error(eager, exact))


@pytest.mark.parametrize("name", MODELS)
def test_generated_kernels_agree_with_double_precision(name, reference, make_model, built):
    torch.manual_seed(7)
    body, inputs, init, _ = MODELS[name]
    loaded = reference(make_model(body, inputs, init))
    with torch.no_grad():
        for parameter in loaded.module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        eager = as_list(loaded.module(*loaded.inputs))
        # Compilers run as processes of their own, so threads are enough to have two at work.
        # Every model in the plain form, and in one of the others by turns.
        chosen = (VARIANTS[0], VARIANTS[1 + list(MODELS).index(name) % 2])
        with ThreadPoolExecutor(2) as pool:
            candidates = list(pool.map(lambda choice: built(loaded, *choice), chosen))
        results = [as_list(candidate.module(*loaded.inputs)) for candidate in candidates]
        exact = in_double(loaded.module, loaded.inputs)
    for result in results:
        assert len(result) == len(eager)
        for made, wanted, target in zip(result, eager, exact, strict=True):
            assert_same(made, wanted, target)


@pytest.mark.parametrize("name", [n for n, model in MODELS.items() if model[3] is not None])
def test_it_fuses_into_as_few_kernels_as_it_should(name, reference, make_model):
    body, inputs, init, count = MODELS[name]
    loaded = reference(make_model(body, inputs, init))
    assert len(plan(lower(loaded.inspection, RULES))) == count


def test_kernels_work_for_other_sizes_than_those_they_were_written_for(
    reference, make_model, built
):
    source = make_model(
        "return torch.softmax(x + self.b, -1), x.exp()", X, "self.b = nn.Parameter(torch.ones(1))"
    )
    loaded = reference(source)
    candidate = built(loaded)
    other = torch.randn(5, 11)
    with torch.no_grad():
        for made, wanted in zip(candidate.module(other), loaded.module(other), strict=True):
            torch.testing.assert_close(made, wanted)


def test_tensors_with_gaps_are_accepted(reference, make_model, built):
    loaded = reference(make_model("return x * 2 + 1", {"x": "torch.randn(9, 4).t()"}))
    made = built(loaded).module(*loaded.inputs)
    torch.testing.assert_close(made, loaded.inputs[0] * 2 + 1)


@pytest.mark.parametrize(
    ("body", "inputs", "init", "told"),
    [
        (
            "return self.c(x)",
            {"x": "torch.randn(1, 3, 8, 8)"},
            "self.c = nn.Conv2d(3, 4, 3)",
            "codegen cannot write a kernel for aten.conv2d.default yet (model.py:10).",
        ),
        ("return x @ x.t()", X, "pass", "for aten.matmul.default yet (model.py:10)."),
        ("return x.softmax(0)", X, "pass", "aten.softmax.int over dimension 0"),
        ("return x.sum(0)", X, "pass", "aten.sum.dim_IntList over dimension"),
        ("return x.half() * 2", X, "pass", "in float16"),
        ("return x.cumsum(-1)", X, "pass", "aten.cumsum.default"),
        ("return F.dropout(x, 0.5, True)", X, "pass", "aten.dropout.default in training mode"),
        ("return x", X, "pass", "nothing to compute"),
        (
            "return x + self.k",
            {"x": "torch.randn(3000)"},
            "self.register_buffer('k', torch.randn(3000), persistent=False)",
            "register it as a persistent buffer",
        ),
        (
            "self.n.add_(1)\nreturn x + self.n",
            X,
            "self.register_buffer('n', torch.zeros(1))",
            "forward changes n",
        ),
    ],
)
def test_what_it_cannot_write_is_named_with_its_place(
    body, inputs, init, told, reference, make_model
):
    from agent.codegen.writer import write_files

    source = make_model(body, inputs, init)
    loaded = reference(source)
    with pytest.raises(CannotGenerate) as caught:
        write_files(lower(loaded.inspection, RULES), loaded.inspection, source, Variant(), 1)
    assert told in str(caught.value)


def test_the_written_model_knows_nothing_of_the_reference(reference, make_model, built):
    body, inputs, init, _ = MODELS["written_out_norm"]
    text = built(reference(make_model(body, inputs, init))).files["model_new.py"]
    assert "import Model" not in text
    for word in ("torch.softmax", "F.", "layer_norm("):
        assert word not in text.split("def forward")[1].replace("kernel_ops.", "")


def test_variants_that_change_nothing_are_written_alike(reference, make_model, built):
    loaded = reference(make_model("return x * 2", X))
    texts = [built(loaded, Variant(keep=keep)).files for keep in Keep]
    assert all(one == two for one, two in itertools.pairwise(texts))
