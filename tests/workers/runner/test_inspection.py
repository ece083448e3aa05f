"""What `inspect` reads from a model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from workers.device.runner.inspection import InspectionError, inspect_model
from workers.protocol.codec import from_data, to_json
from workers.protocol.inspection import Inspection


def inspect(model, *inputs):
    data = inspect_model(model.eval(), inputs, source_path=__file__)
    to_json(data)  # holds nothing that JSON cannot
    return from_data(Inspection, data)


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.strip().startswith(text))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.linear = nn.Linear(16, 4, bias=False)
        self.register_buffer("mask", torch.arange(16) > 8)
        self.register_buffer("hidden", torch.tensor([1.0, math.inf]), persistent=False)
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, x, count):
        y = self.norm(x).masked_fill(self.mask, float("-inf"))
        z = torch.softmax(y * count, dim=-1) + self.hidden[0]
        return self.linear(z), z.to(torch.float64)


def test_it_names_inputs_parameters_and_buffers_by_their_names():
    seen = inspect(Block(), torch.randn(8, 16), 3)
    assert seen.input_names == ("x", "count")
    kinds = {value.source: value.kind for value in seen.values}
    assert kinds["norm.weight"] == "parameter"
    assert kinds["mask"] == "buffer"
    assert kinds["x"] == kinds["count"] == "input"
    by_source = {value.source: value for value in seen.values}
    assert by_source["count"].value == 3
    assert by_source["hidden"].value == [1.0, {"float": "inf"}]
    assert by_source["x"].tensor.shape == (8, 16)
    assert by_source["x"].tensor.strides == (16, 1)


def test_it_lists_the_whole_state_also_what_forward_does_not_use():
    seen = inspect(Block(), torch.randn(8, 16), 3)
    state = {entry["name"]: (entry["kind"], entry["shape"]) for entry in seen.extra["state"]}
    assert state["unused"] == ("parameter", [3])
    assert state["mask"] == ("buffer", [16])
    assert "hidden" not in state
    assert seen.extra["unsaved"] == ["hidden"]


def test_arguments_are_nodes_numbers_and_documented_wrappers():
    seen = inspect(Block(), torch.randn(8, 16), 3)
    nodes = {node.target: node for node in seen.nodes}
    assert nodes["aten.masked_fill.Scalar"].args[2] == {"float": "-inf"}
    assert nodes["aten.masked_fill.Scalar"].args[0] == {"node": "layer_norm"}
    assert nodes["aten.softmax.int"].args[1] == -1
    assert nodes["aten.to.dtype"].args[1] == {"dtype": "float64"}
    assert nodes["aten.mul.Tensor"].args[1] == 3
    assert seen.output_structure == "tuple"
    assert seen.outputs == ({"node": "linear"}, {"node": "to"})


def test_every_node_knows_its_line_in_the_model_not_in_torch():
    seen = inspect(Block(), torch.randn(8, 16), 3)
    places = {node.target: node.location for node in seen.nodes}
    here = Path(__file__).name
    assert places["aten.layer_norm.default"] == f"{here}:{line_of('y = self.norm(x)')}"
    assert places["aten.softmax.int"] == f"{here}:{line_of('z = torch.softmax')}"


def test_work_and_bytes_are_counted_by_the_textbook():
    seen = inspect(Block(), torch.randn(8, 16), 3)
    nodes = {node.target: node for node in seen.nodes}
    assert nodes["aten.linear.default"].flops == 2 * 8 * 16 * 4
    assert nodes["aten.mul.Tensor"].flops == 8 * 16
    assert nodes["aten.mul.Tensor"].bytes_read == nodes["aten.mul.Tensor"].bytes_written == 512
    assert nodes["aten.softmax.int"].flops == 5 * 8 * 16
    assert (nodes["aten.select.int"].bytes_read, nodes["aten.select.int"].flops) == (0, 0)
    # x, norm (2), linear, mask (one byte each), hidden; two outputs. The unused parameter is not touched.
    assert seen.bytes_moved == 4 * (128 + 16 + 16 + 64 + 2) + 16 + 4 * 32 + 8 * 128
    assert seen.flops == sum(node.flops for node in seen.nodes)


def test_convolutions_and_attention_are_counted_too():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 8, 3, groups=2)

        def forward(self, x, q):
            return self.conv(x), F.scaled_dot_product_attention(q, q, q)

    seen = inspect(Both(), torch.randn(1, 4, 6, 6), torch.randn(2, 5, 16))
    flops = {node.target: node.flops for node in seen.nodes}
    assert flops["aten.conv2d.default"] == 2 * (8 * 4 * 4) * (2 * 3 * 3)
    rows = 2 * 5
    attention = flops["aten.scaled_dot_product_attention.default"]
    assert attention == 2 * rows * 5 * (16 + 16) + 5 * rows * 5


def test_an_operator_that_nobody_counted_is_noted():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    seen = inspect(Odd(), torch.randn(3))
    assert seen.notes == ("no work is counted for aten.special_bessel_j0.default",)


def test_one_tensor_given_twice_stays_two_inputs():
    class Two(nn.Module):
        def forward(self, a, b):
            return a - 2 * b

    x = torch.randn(4)
    seen = inspect(Two(), x, x)
    sub = next(node for node in seen.nodes if node.target == "aten.sub.Tensor")
    assert sub.args[0] == {"node": "a"}


def test_in_place_operators_are_taken_out_of_the_graph():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y += 1
            return y.relu_()

    targets = [node.target for node in inspect(InPlace(), torch.randn(4)).nodes]
    assert targets == ["aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default"]


def test_a_forward_that_changes_its_state_is_noted():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x + self.calls

    assert inspect(Counter(), torch.randn(4)).notes == ("forward changes calls",)


def test_results_in_a_dict_keep_their_keys():
    class Named(nn.Module):
        def forward(self, x):
            return {"twice": x * 2, "same": x}

    seen = inspect(Named(), torch.randn(4))
    assert seen.output_structure == "dict"
    assert seen.extra["output_keys"] == ["twice", "same"]
    assert seen.outputs == ({"node": "mul"}, {"node": "x"})


class Nested(nn.Module):
    def forward(self, x):
        return x, (x, x)


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Failing(nn.Module):
    def forward(self, x):
        raise RuntimeError("no weights were loaded")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Nested(), "containers in containers"),
        (Branching(), "has no fixed graph"),
        (Failing(), "no weights were loaded"),
    ],
)
def test_what_cannot_be_captured_gives_one_sentence(model, told):
    with pytest.raises(InspectionError) as caught:
        inspect(model, torch.randn(4))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
