"""What `get_inputs()` may hold: it comes back as it was, or one sentence says what to change."""

from __future__ import annotations

import collections
import json
import math
import re

import pytest
import torch

from workers.device.runner import values
from workers.device.runner.values import (
    MAX_GENERATED,
    ValueProblem,
    build_inputs,
    describe_inputs,
    describe_state,
    from_plain,
    output_structure,
    to_plain,
)


def rebuilt(*values):
    """What a runner makes of a description that went through JSON."""
    description = json.loads(json.dumps(describe_inputs(list(values))))
    return build_inputs(description)[0]


@pytest.mark.parametrize(
    "value",
    [
        3,
        -(2**63),
        0.5,
        True,
        None,
        "mean",
        math.inf,
        torch.float16,
        [1, [2.5, None], "x"],
        (1, (2,)),
        {"a": 1, "b": [2]},
        {1: "one", None: 2, False: 3, 2.5: 4},
        {(1, 2): 3},
        collections.OrderedDict(z=1, a=2),
        torch.Size([2, 3]),
        [],
        {},
    ],
)
def test_plain_values_come_back_as_they_were(value):
    [seen] = rebuilt(value)
    assert seen == value
    assert isinstance(seen, (tuple, dict, list, type(value)))


def test_tensors_come_back_with_their_type_and_layout_wherever_they_are():
    plain, turned = torch.randn(4, 3), torch.randn(3, 4).t()
    wide = torch.randn(1, 3).expand(4, 3)
    [seen] = rebuilt({"x": [plain, (turned, wide)], 7: torch.zeros(0, 5, dtype=torch.int64)})
    assert list(seen) == ["x", 7]
    for made, given in (
        (seen["x"][0], plain),
        (seen["x"][1][0], turned),
        (seen["x"][1][1], wide),
        (seen[7], torch.zeros(0, 5, dtype=torch.int64)),
    ):
        assert (made.dtype, made.shape, made.stride()) == (given.dtype, given.shape, given.stride())


class Own(torch.Tensor):
    """A class of its own."""


Pair = collections.namedtuple("Pair", "a b")
Itself: list[object] = []
Itself.append(Itself)


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


STRANGE = {
    "sparse": (lambda: torch.eye(3).to_sparse(), r"sparse tensor .*\.to_dense\(\)"),
    "rows": (lambda: torch.eye(3).to_sparse_csr(), r"sparse tensor .*\.to_dense\(\)"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "pad it"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "quantized tensor; pass its integers",
    ),
    "meta": (
        lambda: torch.ones(3, device="meta"),
        "device meta; this problem is judged on the CPU",
    ),
    "subclass": (lambda: torch.ones(3).as_subclass(Own), "an? Own, a class of its own"),
    "complex": (lambda: torch.ones(3, dtype=torch.complex64), "type complex64; the types are"),
    "dimensions": (lambda: torch.ones([1] * 12), "12 dimensions; at most"),
    "sign": (lambda: torch.ones(3, dtype=torch.complex64).conj().imag, "resolve_neg"),
    "object": (object, "a value of type object"),
    "function": (lambda: math.sin, "builtin_function_or_method"),
    "complex number": (lambda: 1j, "type complex"),
    "long integer": (lambda: 10**5000, "integer of more than 64 bits"),
    "named tuple": (lambda: Pair(1, 2), "type Pair"),
    "set": (lambda: {1, 2}, "type set"),
    "counter": (lambda: collections.Counter("abc"), "type Counter"),
    "deep": (lambda: deep(200), "16 levels deep; flatten it"),
    "endless": (lambda: Itself, "16 levels deep; flatten it"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_input_is_named_with_what_to_do(name):
    make, sentence = STRANGE[name]
    with pytest.raises(ValueProblem, match=rf"^get_inputs\(\) .*{sentence}"):
        describe_inputs([torch.ones(2), make()])


@pytest.mark.parametrize("name", ["sparse", "nested", "quantized", "meta", "subclass", "sign"])
def test_a_strange_output_is_named_with_what_to_do(name):
    make, sentence = STRANGE[name]
    with pytest.raises(ValueProblem, match=f"^forward returned .*{sentence}"):
        output_structure({"y": [torch.ones(2), make()]})


@pytest.mark.parametrize("value", [None, 1.5, "yes", object(), {1, 2}])
def test_an_output_without_tensors_is_refused(value):
    with pytest.raises(ValueProblem, match=r"^forward returned a .*; return plain tensors"):
        output_structure(value)


def test_a_strange_parameter_is_named():
    state = {"w": torch.ones(2), "m": torch.ones(2, device="meta")}
    with pytest.raises(ValueProblem, match=r"state_dict, at 'm', holds .*device meta"):
        describe_state(state)
    with pytest.raises(ValueProblem, match=r"at '_extra_state', holds a dict"):
        describe_state({"_extra_state": {}})


def test_whatever_gives_arguments_becomes_a_list():
    def as_list(made):
        return values.as_list(made, "get_inputs()")

    x = torch.ones(2)
    assert as_list([x]) == [x]
    assert as_list((x,)) == [x]
    assert as_list(x) == [x]
    assert as_list(item for item in (1, 2)) == [1, 2]
    assert as_list({"a": 1}) == [{"a": 1}]
    assert as_list(3) == [3]


def test_a_generator_without_end_is_cut_off():
    def endless():
        while True:
            yield 1

    with pytest.raises(ValueProblem, match=f"more than {MAX_GENERATED:,} values"):
        values.as_list(endless(), "get_inputs()")


@pytest.mark.parametrize("giver", ["get_inputs()", "get_init_inputs()"])
def test_a_function_that_forgets_to_return_is_named(giver):
    with pytest.raises(ValueProblem, match=f"^{re.escape(giver)} returns nothing"):
        values.as_list(None, giver)


@pytest.mark.parametrize("value", [1, 2.5, None, "s", [1, [2]], torch.int8, -math.inf])
def test_constructor_arguments_survive_json(value):
    assert from_plain(json.loads(json.dumps(to_plain(value, "get_init_inputs()")))) == value


def test_a_constructor_argument_that_is_a_tensor_is_refused_by_name():
    with pytest.raises(ValueProblem, match=r"^get_init_inputs\(\) holds a value of type Tensor"):
        to_plain([torch.ones(2)], "get_init_inputs()")
