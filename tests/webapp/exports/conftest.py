"""A finished session, made of real rows and real files."""

from __future__ import annotations

import dataclasses

import pytest
from django.utils import timezone

from tests.webapp.exports.test_assembly import MODEL, SNAPSHOT, VERDICT
from webapp.common.artifacts import artifact_store
from webapp.evaluations.models import Evaluation, EvaluationState
from webapp.evaluations.services import keep_snapshot
from webapp.evaluations.settling import settle
from webapp.events.services import append, open_stream
from webapp.problems.models import Problem
from webapp.problems.services import create_problem, record_admission
from webapp.studio.models import Session, SessionState, Turn
from workers.protocol.codec import to_json
from workers.protocol.events import EventKind
from workers.protocol.transcript import Role, TranscriptEntry


@pytest.fixture
def finished(people) -> Session:
    """One turn, one passed verdict, a log of three events."""
    problem = create_problem(people.team, people.owner, {"model.py": MODEL}, "Bias + ReLU")
    assert record_admission(problem.pk, True, "")
    problem = Problem.objects.get(pk=problem.pk)
    session = Session.objects.create(
        team=people.team, problem=problem, creator=people.owner, author="codegen"
    )
    snapshot = keep_snapshot(people.team, SNAPSHOT)
    evaluation = Evaluation.objects.create(
        team=people.team,
        problem=problem,
        snapshot=snapshot,
        stages=["build", "verify", "time"],
        tier="full",
        precision="ieee",
        state=EvaluationState.PENDING,
    )
    verdict = dataclasses.replace(VERDICT, problem=problem.digest, snapshot=snapshot.digest)
    assert settle(evaluation.pk, verdict)
    transcript = artifact_store().put(to_json(TranscriptEntry(1, Role.AUTHOR, "A kernel.")) + b"\n")
    Turn.objects.create(
        session=session, number=1, text="A kernel.", snapshot=snapshot, transcript_digest=transcript
    )
    open_stream(session.pk, people.team)
    append(session.pk, EventKind.TURN_STARTED, {"turn": 1})
    append(
        session.pk,
        EventKind.EVALUATION,
        {"turn": 1, "evaluation": str(evaluation.pk), "status": "passed", "speedup": 3.0},
    )
    append(session.pk, EventKind.SESSION_STATE, {"state": "finished", "reason": "Nothing left."})
    session.state = SessionState.FINISHED
    session.reason = "Nothing left."
    session.best_turn, session.best_snapshot, session.best_evaluation = 1, snapshot, evaluation
    session.started_at = session.finished_at = timezone.now()
    session.turn_count = 1
    session.save()
    return Session.objects.get(pk=session.pk)
