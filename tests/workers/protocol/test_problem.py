"""`problem.toml`: everything has a default, and a mistake is named."""

from __future__ import annotations

import pytest

from workers.protocol.codec import ProtocolError
from workers.protocol.problem import OpPolicy, Precision, ProblemSpec, Target, parse_problem_toml
from workers.protocol.requests import EvaluateRequest


def test_an_empty_file_is_a_whole_spec():
    assert parse_problem_toml("") == ProblemSpec()


def test_it_reads_what_was_written():
    spec = parse_problem_toml(
        'title = "GELU"\ntarget = "cuda"\nprecision = "tf32"\nop_policy = "torch_allowed"\n'
        "threads = 4\n[variable_dims]\nx = [0, 1]\n"
    )
    assert spec.target is Target.CUDA
    assert spec.precision is Precision.TF32
    assert spec.op_policy is OpPolicy.TORCH_ALLOWED
    assert spec.variable_dims == {"x": (0, 1)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("target = cpu", "problem.toml: "),
        ('target = "tpu"', "problem.toml.target: 'tpu' is none of cpu, cuda"),
        ("threads = 0", "threads must be between 1 and 256"),
        ('threads = "four"', "problem.toml.threads: expected int, got str"),
        ("tolerance = 0.1", "problem.toml: unknown field 'tolerance'"),
    ],
)
def test_it_names_a_mistake(text: str, complaint: str):
    with pytest.raises(ProtocolError, match=complaint):
        parse_problem_toml(text)


@pytest.mark.parametrize(
    ("snapshot", "stages"),
    [("", ()), ("2" * 64, ("inspect",)), ("", ("build",)), ("2" * 64, ("build", "baseline"))],
)
def test_it_refuses_a_request_whose_stages_do_not_fit(snapshot: str, stages: tuple[str, ...]):
    with pytest.raises(ProtocolError):
        EvaluateRequest(problem="1" * 64, snapshot=snapshot, stages=stages)  # type: ignore[arg-type]
