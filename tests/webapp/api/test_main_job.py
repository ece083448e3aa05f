"""The main job over REST: upload, start, follow, see the verdict."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest
from django.db import connection

from tests.webapp.api.conftest import refused
from tests.webapp.conftest import MODEL
from tests.webapp.verdicts import BUILT, answer, fresh, verdict
from webapp.evaluations.models import Evaluation
from webapp.evaluations.recording import record_answer
from webapp.evaluations.services import request_evaluation
from webapp.events.services import append
from webapp.studio.models import Session, SessionState
from webapp.studio.services import create_session
from webapp.studio.states import move
from workers.protocol.codec import from_data
from workers.protocol.events import Event, EventKind
from workers.protocol.inspection import Inspection
from workers.protocol.problem import Stage
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Ratio

ALL = (Stage.BUILD, Stage.VERIFY, Stage.TIME)


@pytest.fixture
def session(people, problem) -> Session:
    return create_session(people.owner, problem)


@pytest.fixture
def evaluation(problem) -> Evaluation:
    made = request_evaluation(problem, {"model_new.py": b"x = 1\n"}, ALL)
    record_answer(answer(fresh(made.jobs.get()), BUILT))
    device = fresh(made.jobs.get(kind="device"))
    record_answer(answer(device, verdict(made.request, speedup=Ratio(2.0, 1.9, 2.1, 7))))
    made.refresh_from_db()
    return made


class TestProblems:
    def test_an_upload_is_accepted_and_checked(self, owner, colleague):
        response = owner.post("problems", {"files": {"model.py": MODEL.decode()}})
        made = response.json()
        assert (response.status_code, made["state"]) == (202, "checking")
        evaluation = Evaluation.objects.get()
        seen = Inspection((), (), (), "tensor", 64, 512, eager_ms=0.5)
        result = dataclasses.replace(verdict(evaluation.request), inspection=seen)
        record_answer(answer(fresh(evaluation.jobs.get()), result))
        found = colleague.get(f"problems/{made['id']}").json()
        assert found["state"] == "ready"
        assert found["inspection"] == {
            "operators": 0,
            "flops": 64,
            "bytes_moved": 512,
            "eager_ms": 0.5,
            "floor_ms": None,
        }
        assert found["url"] == f"/problems/{made['id']}/"

    @pytest.mark.parametrize(
        ("body", "part", "field"),
        [
            ({}, "files is missing", "files"),
            ({"files": {"model.py": "class X: pass"}}, "no class Model", "model.py"),
            ({"files": {"model.py": 1}}, "no class Model", "model.py"),
            ({"files": {"model.py": None}}, "null", "files.model.py"),
            ({"files": "model.py"}, "dictionary", "files"),
        ],
    )
    def test_a_bad_upload_is_refused_with_its_field(self, owner, body, part, field):
        response = owner.post("problems", body)
        assert refused(response, 400, part)
        assert response.json()["field"] == field

    def test_json_that_is_none_is_refused(self, owner):
        response = owner.client.post(
            "/api/v1/problems", "{", content_type="application/json", headers=owner.headers
        )
        assert refused(response, 400, "JSON parse error")

    def test_who_has_no_team_is_told_so(self, people, stranger):
        people.stranger.memberships.all().delete()
        response = stranger.post("problems", {"files": {"model.py": MODEL.decode()}})
        assert refused(response, 400, "no team")

    def test_the_list_holds_the_teams_own(self, problem, colleague, stranger):
        assert [p["id"] for p in colleague.get("problems").json()["results"]] == [str(problem.pk)]
        assert stranger.get("problems").json()["results"] == []


class TestSessions:
    def test_a_session_is_started_and_followed_to_its_end(self, owner, colleague, problem):
        response = owner.post("sessions", {"problem": str(problem.pk), "author": "codegen"})
        made = response.json()
        assert (response.status_code, made["state"], made["best"]) == (202, "queued", None)
        page = colleague.get(f"sessions/{made['id']}/events").json()
        assert [event["seq"] for event in page["events"]] == [1]
        assert from_data(Event, page["events"][0]).kind is EventKind.SESSION_STATE
        assert (page["last_seq"], page["done"]) == (1, False)
        session = Session.objects.get(pk=made["id"])
        move(session.pk, (SessionState.QUEUED,), SessionState.FAILED, "Nothing worked.")
        page = colleague.get(f"sessions/{made['id']}/events?after=1").json()
        assert [event["body"]["state"] for event in page["events"]] == ["failed"]
        assert page["done"]
        assert colleague.get(f"sessions/{made['id']}").json()["reason"] == "Nothing worked."

    def test_it_shows_the_best_with_both_speedups(self, owner, session, evaluation):
        Session.objects.filter(pk=session.pk).update(
            best_turn=2, best_snapshot=evaluation.snapshot, best_evaluation=evaluation
        )
        best = owner.get(f"sessions/{session.pk}").json()["best"]
        assert best["evaluation"] == str(evaluation.pk)
        assert best["speedup"] == {"median": 2.0, "low": 1.9, "high": 2.1, "pairs": 7}
        assert best["speedup_compile"] is None

    def test_a_reader_may_wait_for_the_next_event(self, owner, session):
        def later() -> None:
            time.sleep(0.5)
            append(session.pk, EventKind.TURN_STARTED, {"turn": 1})
            connection.close()

        thread = threading.Thread(target=later)
        thread.start()
        began = time.monotonic()
        page = owner.get(f"sessions/{session.pk}/events?after=1&wait=20").json()
        assert [event["seq"] for event in page["events"]] == [2]
        assert 0.3 < time.monotonic() - began < 5
        thread.join()

    def test_nobody_waits_for_a_session_that_is_over(self, owner, session):
        move(session.pk, (SessionState.QUEUED,), SessionState.FAILED)
        began = time.monotonic()
        page = owner.get(f"sessions/{session.pk}/events?after=2&wait=20").json()
        assert (page["events"], page["done"]) == ([], True)
        assert time.monotonic() - began < 3

    @pytest.mark.parametrize("query", ["after=x", "after=-1", "wait=nan", "wait=-2", "after=1e300"])
    def test_a_senseless_cursor_is_refused(self, owner, session, query):
        assert refused(owner.get(f"sessions/{session.pk}/events?{query}"), 400, "must be a number")

    def test_it_is_stopped_by_any_member(self, colleague, session):
        response = colleague.post(f"sessions/{session.pk}/stop")
        assert (response.status_code, response.json()["state"]) == (202, "stopped")
        assert refused(colleague.post(f"sessions/{session.pk}/stop"), 400, "already stopped")

    def test_it_is_paused_and_resumed(self, owner, session):
        move(session.pk, (SessionState.QUEUED,), SessionState.RUNNING)
        assert owner.post(f"sessions/{session.pk}/pause").json()["state"] == "pausing"
        assert owner.post(f"sessions/{session.pk}/resume").json()["state"] == "running"

    def test_a_session_without_kernels_has_no_source(self, owner, session):
        assert refused(owner.get(f"sessions/{session.pk}/source.zip"), 400, "nothing to download")

    @pytest.mark.parametrize("author", ["nobody", ""])
    def test_an_unknown_author_is_refused(self, owner, problem, author):
        response = owner.post("sessions", {"problem": str(problem.pk), "author": author})
        assert response.status_code == 400


class TestEvaluations:
    def test_the_verdict_is_the_judges_own_json(self, colleague, evaluation):
        found = colleague.get(f"evaluations/{evaluation.pk}").json()
        assert from_data(Verdict, found["verdict"]) == evaluation.verdict
        assert found["speedup_eager"]["median"] == 2.0
        assert found["speedup_compile"] is None
        assert found["speedup_compile_pending"] is False

    def test_one_that_is_not_over_has_no_verdict(self, owner, problem):
        pending = request_evaluation(problem, None, (Stage.BASELINE,), background=True)
        found = owner.get(f"evaluations/{pending.pk}").json()
        assert (found["state"], found["verdict"]) == ("pending", None)
        assert found["speedup_compile_pending"] is True


class TestWhoMay:
    @pytest.fixture
    def paths(self, problem, session, evaluation) -> list[str]:
        return [
            f"problems/{problem.pk}",
            f"sessions/{session.pk}",
            f"sessions/{session.pk}/events",
            f"sessions/{session.pk}/source.zip",
            f"evaluations/{evaluation.pk}",
        ]

    def test_a_stranger_gets_404_as_for_what_does_not_exist(self, stranger, paths, session):
        for path in paths:
            assert refused(stranger.get(path), 404)
        for deed in ("stop", "pause", "resume"):
            assert refused(stranger.post(f"sessions/{session.pk}/{deed}"), 404)
        assert session.state == "queued"

    def test_a_stranger_cannot_start_a_session_on_our_problem(self, stranger, problem):
        assert refused(stranger.post("sessions", {"problem": str(problem.pk)}), 404)

    def test_a_visitor_gets_401_and_learns_how_to_come_in(self, visitor, paths):
        for path in [*paths, "problems", "sessions", "tokens", "schema/"]:
            response = visitor.get(path)
            assert refused(response, 401)
            assert response["WWW-Authenticate"].startswith("Bearer")

    def test_a_browser_comes_in_by_its_cookie_but_not_past_csrf(self, people, problem):
        from django.test import Client

        browser = Client(enforce_csrf_checks=True)
        browser.force_login(people.owner)
        assert browser.get(f"/api/v1/problems/{problem.pk}").status_code == 200
        response = browser.post("/api/v1/sessions", {}, content_type="application/json")
        assert refused(response, 403, "CSRF")
