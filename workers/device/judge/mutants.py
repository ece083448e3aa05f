"""Admission tests the problem: wrong answers that lazy kernels give must fail its comparison.

Zeros, a constant, a copy of an input and the answer to other inputs must fail, else the problem is
refused: it would pay for nothing. That half precision passes, or a model without one of its parameters,
is told on the problem's page and not refused: both happen to sound problems (a bias before a
normalisation cancels out, a model may be exact in half precision), and whoever reads a speed-up of such
a problem should know what it can hide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from workers.device.judge.bench import Bench
from workers.device.judge.compare import Expectation, compare
from workers.device.judge.link import RunnerFailure
from workers.protocol.inspection import Mutant
from workers.protocol.problem import Precision

PARAMETERS_BUDGET_S = 3.0
_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}

# What to change where such a wrong answer passes.
ADVICE = {
    "zeros": "Zeros would pass for the outputs: they are zero or next to it. Scale the inputs or the parameters "
    "so that the outputs differ from zero.",
    "constant": "A constant would pass for the outputs: within the tolerance all their elements are equal. Give "
    "inputs or parameters for which they differ.",
    "copy": "A copy of an input would pass for the outputs, so there is nothing to compute.",
    "stale": "The outputs for other inputs would pass: within the tolerance they do not depend on the inputs. "
    "Give inputs for which they differ.",
}


def simple_mutants(
    bench: Bench,
    outputs: list[torch.Tensor],
    others: list[torch.Tensor],
    inputs: list[torch.Tensor],
) -> dict[str, list[torch.Tensor]]:
    """Wrong outputs by name; `others` belong to other inputs than `outputs` and `inputs`."""
    made = {
        "zeros": [torch.zeros_like(output) for output in outputs],
        "stale": others,
        "constant": [_constant(a, b) for a, b in zip(outputs, others, strict=True)],
    }
    copies = [_copied(bench, output, inputs) for output in outputs]
    whole = [copy for copy in copies if copy is not None]
    if len(whole) == len(outputs):
        made["copy"] = whole
    return made


def caught(expected: list[Expectation], outputs: list[torch.Tensor], precision: Precision) -> bool:
    """Whether the comparison refuses these outputs."""
    pairs = zip(expected, outputs, strict=True)
    return not all(compare("", e, output, precision).passed for e, output in pairs)


def halves(
    bench: Bench,
    values: dict[str, torch.Tensor],
    inputs: list[torch.Tensor],
    expected: list[Expectation],
    precision: Precision,
) -> list[Mutant]:
    """Inputs, parameters and outputs rounded to half precision: the least that it loses."""
    if precision is not Precision.IEEE:
        return []  # the others allow rounded arithmetic anyway
    wide = [e.eager for e in expected if e.eager.dtype in (torch.float32, torch.float64)]
    if not wide:
        return []
    found = []
    for name, half in _HALVES.items():
        rounded = {key: _rounded(value, half) for key, value in values.items()}

        def call(half: torch.dtype = half, rounded: dict[str, torch.Tensor] = rounded) -> bool:
            bench.load_parameters([bench.reference], rounded)
            bench.write(bench.reference, 0, [_rounded(tensor, half) for tensor in inputs])
            outputs = [_rounded(output, half) for output in bench.eager(0)]
            return caught(expected, outputs, precision)

        found.append(Mutant(f"half precision ({name})", _noticed(call)))
    bench.write(bench.reference, 0, inputs)
    return found


def without_parameters(
    bench: Bench,
    values: dict[str, torch.Tensor],
    expected: list[Expectation],
    precision: Precision,
) -> Iterator[Mutant]:
    """The model without one parameter at a time, as many as fit in the time that there is."""
    deadline = time.monotonic() + PARAMETERS_BUDGET_S
    seen: set[int] = set()
    for name, value in values.items():
        if id(value) in seen or not value.dtype.is_floating_point or not value.numel():
            continue
        seen.add(id(value))
        if time.monotonic() > deadline:
            return
        neutral = _neutral(value)
        changed = {key: neutral if v is value else v for key, v in values.items()}

        def call(changed: dict[str, torch.Tensor] = changed) -> bool:
            bench.load_parameters([bench.reference], changed)
            return caught(expected, bench.eager(0), precision)

        yield Mutant(f"without {name}", _noticed(call))


def _noticed(call: Callable[[], bool]) -> bool:
    """A model that cannot even be called like that is noticed."""
    try:
        return call()
    except RunnerFailure as failure:
        if failure.kind not in ("raised", "memory"):
            raise
        return True


def _constant(output: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Every element the same: the mean, or the most common integer. Of a single element, a stale one."""
    if output.numel() <= 1:
        return other
    if output.dtype.is_floating_point:
        return torch.full_like(output, float(output.double().mean()))
    values, counts = torch.unique(output, return_counts=True)
    return torch.full_like(output, values[counts.argmax()].item())


def _copied(bench: Bench, output: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor | None:
    for spec, flat in zip(bench.specs, inputs, strict=True):
        if spec.dtype == output.dtype and spec.shape == tuple(output.shape):
            return flat.as_strided(spec.shape, spec.strides)
    return None


def _rounded(tensor: torch.Tensor, half: torch.dtype) -> torch.Tensor:
    return tensor.to(half).to(tensor.dtype) if tensor.dtype.is_floating_point else tensor


def _neutral(value: torch.Tensor) -> torch.Tensor:
    """What a kernel that skips it assumes: one for a factor, which lies around one, else zero."""
    mean = float(value.double().mean())
    factor = value.numel() > 1 and 0.5 < mean < 1.5 and float(value.double().std()) < 0.5
    return torch.ones_like(value) if factor else torch.zeros_like(value)
