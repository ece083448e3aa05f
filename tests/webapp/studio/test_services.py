"""Who may start and steer sessions, and when."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import MODEL
from webapp.common.errors import UserError
from webapp.evaluations.models import Baseline, Evaluation
from webapp.events.queries import after
from webapp.problems.services import create_problem, record_admission
from webapp.studio.leases import claim
from webapp.studio.models import Session, SessionState
from webapp.studio.queries import visible_to
from webapp.studio.services import (
    announce_baselines,
    create_session,
    pause_session,
    resume_session,
    stop_session,
)
from webapp.studio.states import move
from workers.protocol.events import EventKind


def baseline_of(problem) -> Baseline:
    evaluation = Evaluation.objects.create(
        team=problem.team, problem=problem, stages=["baseline"], tier="quick", precision="ieee"
    )
    return Baseline.objects.create(
        problem=problem,
        evaluation=evaluation,
        device_name="CPU",
        torch_version="2.13",
        precision="ieee",
        ratio_median=1.5,
        ratio_low=1.4,
        ratio_high=1.6,
        pairs=5,
    )


def test_a_stranger_cannot_start_steer_or_see_a_session(people, problem, session):
    for deed in (stop_session, pause_session, resume_session):
        with pytest.raises(UserError, match="not a member"):
            deed(people.stranger, session)
    with pytest.raises(UserError, match="not a member"):
        create_session(people.stranger, problem)
    assert list(visible_to(people.stranger)) == []
    assert list(visible_to(people.colleague)) == [session]


def test_a_session_waits_until_its_problem_is_ready(people):
    problem = create_problem(people.team, people.owner, {"model.py": MODEL})
    session = create_session(people.owner, problem)
    assert claim("host") is None
    record_admission(problem.pk, True, "")
    assert claim("host").pk == session.pk


def test_a_session_fails_when_its_problem_is_refused(people):
    problem = create_problem(people.team, people.owner, {"model.py": MODEL})
    session = create_session(people.owner, problem)
    record_admission(problem.pk, False, "It is random.")
    assert claim("host") is None
    session.refresh_from_db()
    assert (session.state, session.reason) == ("failed", "The problem was refused: It is random.")


def test_it_refuses_a_problem_that_was_refused(people):
    problem = create_problem(people.team, people.owner, {"model.py": MODEL})
    record_admission(problem.pk, False, "It is random.")
    problem.refresh_from_db()
    with pytest.raises(UserError, match="refused: It is random"):
        create_session(people.owner, problem)


def test_it_refuses_an_unknown_author(people, problem):
    with pytest.raises(UserError, match="use one of codegen"):
        create_session(people.owner, problem, "shakespeare")


def test_what_is_over_can_neither_be_stopped_nor_paused_nor_resumed(people, session):
    assert move(session.pk, (SessionState.QUEUED,), SessionState.FAILED, "No.")
    for deed in (stop_session, pause_session, resume_session):
        with pytest.raises(UserError, match="already failed"):
            deed(people.owner, session)


def test_a_move_happens_once_and_only_from_where_it_may(session):
    assert move(session.pk, (SessionState.QUEUED,), SessionState.RUNNING)
    assert not move(session.pk, (SessionState.QUEUED,), SessionState.RUNNING)
    log = after(session.pk, 0)
    assert [e.body["state"] for e in log] == ["queued", "running"]


def test_all_sessions_of_a_problem_hear_of_its_baseline_once(people, problem, session):
    ended = create_session(people.owner, problem)
    move(ended.pk, (SessionState.QUEUED,), SessionState.FAILED)
    baseline_of(problem)
    assert announce_baselines() == 2
    assert announce_baselines() == 0
    for one in (session, ended):
        told = [e for e in after(one.pk, 0) if e.kind is EventKind.BASELINE]
        assert [e.body["compile_over_eager"] for e in told] == [1.5]


def test_a_session_that_begins_later_hears_of_it_too(people, problem):
    baseline_of(problem)
    announce_baselines()
    later = create_session(people.owner, problem)
    assert [e.kind for e in after(later.pk, 0)] == [EventKind.SESSION_STATE, EventKind.BASELINE]


def test_the_database_refuses_a_state_that_does_not_exist(session):
    with pytest.raises(Exception, match="session_state"):
        Session.objects.filter(pk=session.pk).update(state="dreaming")
