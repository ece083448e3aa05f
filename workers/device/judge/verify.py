"""Verification: fresh inputs, compared outputs, stub replay, what went through torch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import torch

from workers.device.judge.bench import Bench, paths_of
from workers.device.judge.clock import BlockResult, overlapping, run_block
from workers.device.judge.compare import Expectation, close, compare
from workers.device.judge.link import RunnerFailure, RunnerLink
from workers.device.judge.maps import MAPS, applied
from workers.device.judge.spots import UNWRITTEN, choose_marks, look, misplaced
from workers.protocol.diagnostics import Finding
from workers.protocol.problem import OpPolicy, Precision
from workers.protocol.verdict import CaseResult, OutputError

# Operators that move or allocate but do not compute; a forward may use them around its kernels.
HARMLESS_CALLS = frozenset(
    {
        "aten::alias",
        "aten::as_strided",
        "aten::as_strided_",
        "aten::chunk",
        "aten::clone",
        "aten::contiguous",
        "aten::copy_",
        "aten::detach",
        "aten::detach_",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::expand",
        "aten::expand_as",
        "aten::fill_",
        "aten::flatten",
        "aten::is_nonzero",
        "aten::item",
        "aten::lift_fresh",
        "aten::narrow",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::new_zeros",
        "aten::numpy_T",
        "aten::permute",
        "aten::reshape",
        "aten::resize_",
        "aten::resolve_conj",
        "aten::resolve_neg",
        "aten::select",
        "aten::slice",
        "aten::split",
        "aten::split_with_sizes",
        "aten::squeeze",
        "aten::t",
        "aten::to",
        "aten::transpose",
        "aten::unbind",
        "aten::unflatten",
        "aten::unsqueeze",
        "aten::view",
        "aten::view_as",
        "aten::zero_",
        "aten::zeros",
        "aten::zeros_like",
        "aten::_local_scalar_dense",
        "aten::_reshape_alias",
        "aten::_to_copy",
        "aten::_unsafe_view",
    }
)


MOST_CALLS = 1000
ONE_RESULT = (
    "Two calls on the same inputs return the same memory, so that the second one changes the result of "
    "the first; return memory of its own from each call"
)
INPUTS = "inputs"
"""Stands for the inputs where the outputs of a call are named."""


@dataclass
class Verified:
    """What verification saw of the candidate."""

    cases: list[CaseResult] = field(default_factory=list)
    reference: str = "fp64"
    setup_ms: float = 0.0
    candidate_ms: list[float] = field(default_factory=list)
    eager_ms: list[float] = field(default_factory=list)
    output_bytes: int = 0
    first_expected: list[Expectation] = field(default_factory=list)
    misplaced: str = ""
    """What is wrong with where outputs lie, as a sentence."""

    @property
    def passed(self) -> bool:
        return all(case.passed for case in self.cases)

    @property
    def call_ms(self) -> float:
        """A typical call of the slower arm."""
        return max(statistics.median(self.candidate_ms), statistics.median(self.eager_ms))


def compare_all(
    expected: list[Expectation], outputs: list[torch.Tensor], names: list[str], precision: Precision
) -> tuple[OutputError, ...]:
    """Compare the outputs of one call; a different number of them is an error of its own."""
    if len(outputs) != len(expected):
        message = f"is {len(outputs)} tensors where the reference gives {len(expected)}"
        return (OutputError("", 1.0, 0.0, 1.0, 0.0, False, message),)
    labels = names if len(names) == len(expected) else [str(i) for i in range(len(expected))]
    return tuple(
        compare(name, e, o, precision) for name, e, o in zip(labels, expected, outputs, strict=True)
    )


def told(error: OutputError) -> str:
    """One sentence for what is wrong with an output, or with the inputs after a call."""
    name = f"Output {error.path}" if error.path else "The output"
    return f"{'Inputs:' if error.path == INPUTS else name} {error.message}."


def verify_case(
    bench: Bench,
    candidate: RunnerLink,
    index: int,
    precision: Precision,
    seen: Verified,
    map_name: str = "",
) -> None:
    """One call on fresh inputs, changed by one of `MAPS`: the candidate first, in a block of its own, then
    the reference."""
    contents = bench.fill([index])[0]
    if map_name:
        contents = applied(MAPS[map_name], bench.specs, contents)
        for link in bench.links:
            bench.write(link, index, contents)
    block = run_block(candidate, [index], bench.call_limit_s)
    intact = bench.unchanged(candidate, index, contents)
    foreign = look(candidate, block.places[0], choose_marks()).foreign
    candidate.release()
    candidate.freeze()
    bench.reference.freeze()
    eager = run_block(bench.reference, [index], bench.call_limit_s)
    if foreign and look(bench.reference, eager.places[0], choose_marks()).foreign:
        foreign = 0
    bench.reference.release()
    seen.eager_ms.append(eager.net_ms)
    seen.candidate_ms.append(block.net_ms)
    expected, exact = bench.expect(index, eager.outputs)
    if not exact:
        seen.reference = "eager"
    if not seen.first_expected:
        seen.first_expected = expected
        seen.setup_ms += block.net_ms
        seen.output_bytes = sum(e.eager.numel() * e.eager.element_size() for e in expected)
    errors = compare_all(expected, block.outputs, paths_of(bench.structure), precision)
    if not intact:
        message = "the call changed its input tensors"
        errors = (*errors, OutputError(INPUTS, 1.0, 0.0, 1.0, 0.0, False, message))
    if not seen.misplaced:
        inputs = [bench.input_spans(link) for link in (bench.reference, candidate)]
        seen.misplaced = misplaced(eager.places[0], block.places[0], *inputs)
        seen.misplaced = seen.misplaced or (UNWRITTEN if foreign else "")
    seen.cases.append(
        CaseResult(
            map_name or f"inputs {len(seen.cases) + 1}", all(e.passed for e in errors), errors
        )
    )


def same_form(bench: Bench, candidate: RunnerLink) -> str:
    """Empty if the result is nested as the reference's and is the call's own, else a sentence."""
    reply = candidate.command("structure", bench.call_limit_s, index=0)
    candidate.release()
    if reply.get("structure") == bench.structure:
        return "" if _fresh(bench, candidate) or not _fresh(bench, bench.reference) else ONE_RESULT
    return f"the result is nested as {_shown(reply.get('structure'))}, the reference's as {_shown(bench.structure)}"


def _fresh(bench: Bench, link: RunnerLink) -> bool:
    """Whether two calls on the same inputs give results that lie apart."""
    link.freeze()
    block = run_block(link, [0, 0], bench.call_limit_s)
    link.release()
    return not overlapping(block.places)


def _shown(structure: object) -> str:
    text = str(structure).replace("None", "tensor")
    return text if len(text) < 80 else text[:77] + "..."


def stub_breaks_output(
    bench: Bench,
    stub: RunnerLink,
    expected: list[Expectation],
    contents: list[torch.Tensor],
    precision: Precision,
) -> tuple[bool, float]:
    """Call the candidate with empty kernels on known inputs; returns (output is wrong, ms of a call)."""
    try:
        for address, tensor in zip(bench.addresses[stub.role][0], contents, strict=True):
            stub.write(int(address), tensor)
        times = []
        broken = False
        for _ in range(3):
            block = run_block(stub, [0], bench.call_limit_s)
            stub.release()
            stub.freeze()
            times.append(block.net_ms)
            errors = compare_all(expected, block.outputs, [], precision)
            broken = broken or not all(e.passed for e in errors)
        return broken, min(times)
    except RunnerFailure as failure:
        if failure.kind == "start":
            raise
        return True, 0.0


def claimed_calls(bench: Bench, candidate: RunnerLink) -> list[str]:
    """Operators of torch that the candidate's process says it called: a claim."""
    reply = candidate.command("torch_calls", bench.call_limit_s, index=0)
    candidate.release()
    with candidate.claims():
        return [str(name)[:100] for name in list(reply["calls"])[:MOST_CALLS]]


def computing_calls(calls: list[str], namespace: str) -> list[str]:
    """Those of the claimed operators that compute and are not the candidate's own."""
    return sorted(
        name
        for name in calls
        if "::" in name and name not in HARMLESS_CALLS and not name.startswith(f"{namespace}::")
    )


def authorship_findings(
    policy: OpPolicy, style: str, breaks: bool, calls: list[str]
) -> list[Finding]:
    """What the op rules say to stub replay and torch calls."""
    rejects = policy is OpPolicy.KERNELS_ONLY
    found = []
    if style == "python":
        found.append(
            Finding(
                "no_kernels",
                "The snapshot has no kernels of its own; write them in kernels/ and list them in ops.json.",
                rejects,
            )
        )
    elif not breaks:
        found.append(
            Finding(
                "authorship",
                "The output stays right when the candidate's kernels do nothing, so they are not what computes it.",
                rejects,
                "replay with empty kernels passed the comparison",
            )
        )
    if calls:
        found.append(
            Finding(
                "torch_compute",
                f"forward computes with torch ({', '.join(calls[:6])}); this problem wants kernels only.",
                rejects,
                ", ".join(calls),
                claimed=True,
            )
        )
    return found


def timed_check(
    names: list[str], precision: Precision, eager: BlockResult, candidate: BlockResult
) -> str:
    """Compare the copied outputs of a timed pair; empty if right, else a sentence."""
    pairs = zip(eager.outputs, candidate.outputs, strict=False)
    if len(eager.outputs) == len(candidate.outputs) and all(
        close(e, c, precision) for e, c in pairs
    ):
        return ""
    expected = [Expectation(e, None) for e in eager.outputs]
    for error in compare_all(expected, candidate.outputs, names, precision):
        # Eager itself is the yardstick here, so its own error adds to what the candidate may have.
        if not error.passed and not _within(error):
            return f"output {error.path or '0'} of a timed call {error.message}"
    return ""


def _within(error: OutputError) -> bool:
    return (
        error.rms_limit > 0
        and error.rms_error <= 2 * error.rms_limit
        and error.max_error <= 2 * error.max_limit
    )
