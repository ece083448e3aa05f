"""A session with a log, verdicts of several kinds, and clients for everybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.verdicts import DEVICE, ENVIRONMENT
from webapp.evaluations.models import Evaluation, EvaluationState
from webapp.evaluations.services import keep_snapshot, request_evaluation
from webapp.evaluations.settling import settle
from webapp.events.services import append
from webapp.problems.models import Problem
from webapp.studio.models import Session, Turn
from webapp.studio.services import create_session
from workers.protocol.codec import Json
from workers.protocol.diagnostics import Diagnostic, Finding, Severity
from workers.protocol.events import EventKind
from workers.protocol.inspection import GraphNode, Inspection, TensorInfo
from workers.protocol.problem import Stage
from workers.protocol.verdict import (
    ArmTiming,
    Authorship,
    Block,
    CaseResult,
    Correctness,
    Memory,
    OutputError,
    Ratio,
    Status,
    Timing,
)
from workers.protocol.verdict import Evaluation as Verdict

FILES = {
    "model_new.py": b"import kernel_ops\n\nx = '<script>alert(1)</script>'\n",
    "kernels/double.cpp": b'// doubles\nextern "C" void twice(const float* x) {}\n',
}
ALL_STAGES = (Stage.BUILD, Stage.VERIFY, Stage.TIME)

MakeVerdict = Callable[..., Evaluation]


@dataclass(frozen=True)
class Clients:
    owner: Client
    colleague: Client
    stranger: Client
    nobody: Client


@pytest.fixture
def clients(people: People) -> Clients:
    def signed_in(user: object) -> Client:
        client = Client()
        client.force_login(user)  # type: ignore[arg-type]
        return client

    return Clients(
        signed_in(people.owner), signed_in(people.colleague), signed_in(people.stranger), Client()
    )


@pytest.fixture
def judged(problem: Problem) -> MakeVerdict:
    """Makes an evaluation with a verdict of some status."""

    def make(status: Status = Status.PASSED, **parts: object) -> Evaluation:
        evaluation = request_evaluation(problem, FILES, ALL_STAGES)
        assert evaluation.snapshot is not None
        base: dict[str, object] = {
            "summary": f"It is {status}.",
            "problem": problem.digest,
            "snapshot": evaluation.snapshot.digest,
            "target": evaluation.request.target,
            "tier": evaluation.request.tier,
            "precision": evaluation.request.precision,
            "stages": ALL_STAGES,
            "device": DEVICE,
            "environment": ENVIRONMENT,
        }
        if status is Status.PASSED:
            base |= {"timing": timing(), "correctness": correctness(passed=True)}
            base |= {"authorship": Authorship(True, 0.94, ("aten.empty_like",))}
            base |= {"memory": Memory(4096, 2048), "setup_ms": 12.5}
        assert settle(evaluation.pk, Verdict(status=status, **{**base, **parts}))  # type: ignore[arg-type]
        return Evaluation.objects.get(pk=evaluation.pk)

    return make


@pytest.fixture
def session(people: People, problem: Problem, judged: MakeVerdict) -> Session:
    """A running session behind its first turn, with a best kernel."""
    made = create_session(people.owner, problem)
    now = timezone.now()
    Session.objects.filter(pk=made.pk).update(state="running", started_at=now)
    evaluation = judged()
    snapshot = keep_snapshot(people.team, FILES)

    def tell(kind: EventKind, **body: Json) -> None:
        append(made.pk, kind, body)

    tell(EventKind.SESSION_STATE, state="running", reason="")
    tell(EventKind.TURN_STARTED, turn=1)
    tell(EventKind.MESSAGE, turn=1, role="author", text="Fuse <b>everything</b>.")
    tell(EventKind.TOOL_STARTED, turn=1, call="c1", tool="profile", arguments={"path": "kernels/x"})
    tell(EventKind.SNAPSHOT, turn=1, digest=snapshot.digest, files=["kernels/double.cpp"])
    tell(
        EventKind.EVALUATION,
        turn=1,
        evaluation=str(evaluation.pk),
        status="passed",
        stage="time",
        summary="Correct and faster.",
        speedup=2.5,
        low=2.4,
        high=2.6,
    )
    best = {"speedup": 2.5, "low": 2.4, "high": 2.6}
    tell(EventKind.BEST, turn=1, evaluation=str(evaluation.pk), snapshot=snapshot.digest, **best)
    tell(
        EventKind.TOOL_FINISHED,
        turn=1,
        call="c1",
        tool="profile",
        ok=True,
        summary="2.50x against eager",
        duration_ms=1234.5,
    )
    tell(EventKind.TURN_FINISHED, turn=1, snapshot=snapshot.digest, text="Fuse <b>everything</b>.")
    Turn.objects.create(session=made, number=1, snapshot=snapshot, transcript_digest="0" * 64)
    Session.objects.filter(pk=made.pk).update(
        turn_count=1, best_turn=1, best_snapshot=snapshot, best_evaluation=evaluation
    )
    return Session.objects.get(pk=made.pk)


@pytest.fixture
def inspected(problem: Problem) -> Evaluation:
    """The look that admitted the problem."""
    evaluation = request_evaluation(problem, None, (Stage.INSPECT,))
    node = GraphNode(
        "mul",
        "aten.mul.Tensor",
        (),
        {},
        (TensorInfo((8, 8), "float32"),),
        64,
        256,
        256,
        "model.py:8",
    )
    inspection = Inspection((), (node,), (), "tensor", 64, 512, eager_ms=3.5, floor_ms=0.25)
    verdict = Verdict(
        status=Status.PASSED,
        summary="Deterministic.",
        problem=problem.digest,
        snapshot="",
        target=evaluation.request.target,
        tier=evaluation.request.tier,
        precision=evaluation.request.precision,
        stages=(Stage.INSPECT,),
        inspection=inspection,
        device=DEVICE,
        environment=ENVIRONMENT,
    )
    assert settle(evaluation.pk, verdict)
    return Evaluation.objects.get(pk=evaluation.pk, state=EvaluationState.DONE)


def timing() -> Timing:
    eager = ArmTiming(per_call_ms=5.0, intercept_ms=0.1, single_ms=5.1, blocks=4)
    candidate = ArmTiming(per_call_ms=2.0, intercept_ms=0.1, single_ms=2.1, blocks=4)
    blocks = [
        Block(arm, calls, 0.1 + calls * per_call, order)
        for order, (arm, calls, per_call) in enumerate(
            [("eager", 2, 5.0), ("candidate", 2, 2.0), ("candidate", 7, 2.0), ("eager", 7, 5.0)]
        )
    ]
    return Timing(
        eager, candidate, Ratio(2.5, 2.4, 2.6, 24), noop_per_call_ms=0.001, blocks=tuple(blocks)
    )


def correctness(*, passed: bool) -> Correctness:
    good = OutputError("", 1e-8, 1e-6, 1e-7, 1e-5, True)
    bad = OutputError("", 0.5, 1e-6, 2.0, 1e-5, False, "Differs.", (3, 4), 1.0, 0.0)
    outputs = (good,) if passed else (bad,)
    return Correctness((CaseResult("case 1", passed, outputs),), "fp64", timed_calls_checked=3)


REJECTING = Finding("authorship", "The kernels do nothing.", rejects=True, evidence="all equal")
CLAIM = Finding("torch_calls", "forward called torch.", evidence="aten.mul", claimed=True)
COMPILER = Diagnostic("g++", Severity.ERROR, "expected ';'", "kernels/double.cpp", 2, 14)
