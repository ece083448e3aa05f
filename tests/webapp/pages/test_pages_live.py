"""The live page as the server draws it, without any script."""

from __future__ import annotations

import json
import re

from tests.webapp.conftest import MODEL, People
from tests.webapp.pages.conftest import Clients
from webapp.evaluations.settling import request_baseline
from webapp.events.services import append
from webapp.problems.services import create_problem, record_admission
from webapp.studio.leases import claim
from webapp.studio.models import Session
from webapp.studio.services import create_session
from workers.protocol.events import EventKind


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script id="live-data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    data: dict[str, object] = json.loads(found.group(1))
    return data


def test_everything_so_far_is_on_the_page_without_a_script(
    clients: Clients, session: Session
) -> None:
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert "Fuse &lt;b&gt;everything&lt;/b&gt;." in page
    assert 'data-call="c1"' in page
    assert "1.2 s" in page
    assert "Changed kernels/double.cpp" in page
    assert "(2.40 to 2.60)" in page
    assert f"/evaluations/{session.best_evaluation_id}/" in page
    assert "Best so far" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("&#x27;", "'")


def test_the_cursor_is_the_last_event_that_was_drawn(clients: Clients, session: Session) -> None:
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert 'data-seq="10"' in page.split('class="live"')[1][:200]
    append(session.pk, EventKind.TURN_STARTED, {"turn": 2})
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert 'data-seq="11"' in page.split('class="live"')[1][:200]
    assert page.count('data-turn="2"') == 1


def test_the_author_is_quoted_once_per_turn(clients: Clients, session: Session) -> None:
    """`turn.finished` repeats the text of the message before it."""
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert page.count("Fuse &lt;b&gt;") == 1


def test_the_plot_gets_points_with_intervals(clients: Clients, session: Session) -> None:
    append(
        session.pk,
        EventKind.EVALUATION,
        {"turn": 2, "evaluation": "", "status": "compile_error", "summary": "", "speedup": None},
    )
    append(
        session.pk,
        EventKind.EVALUATION,
        {"turn": 2, "evaluation": "", "status": "passed", "summary": "", "speedup": None},
    )
    points = data_of(clients.owner.get(session.get_absolute_url()).content.decode())["points"]
    assert [(p["turn"], p["speedup"], p["low"], p["status"]) for p in points] == [  # type: ignore[attr-defined]
        (1, 2.5, 2.4, "passed"),
        (2, None, None, "compile_error"),
    ]


def test_torch_compile_is_shown_when_it_is_known(clients: Clients, session: Session) -> None:
    assert "not measured" in clients.owner.get(session.get_absolute_url()).content.decode()
    request_baseline(session.problem)
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert "follows" in page
    body = {"status": "passed", "compile_over_eager": 1.5, "low": 1.4, "high": 1.6}
    append(session.pk, EventKind.BASELINE, body)  # type: ignore[arg-type]
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert "1.40 to 1.60" in page
    assert data_of(page)["baseline"] == {"median": 1.5, "low": 1.4, "high": 1.6}


def test_nothing_follows_on_a_problem_that_was_refused(clients: Clients, people: People) -> None:
    problem = create_problem(people.team, people.owner, {"model.py": MODEL})
    session = create_session(people.owner, problem)
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert "follows" in page
    assert page.count("It begins when the judge has checked the problem.") == 2
    assert '<span data-show="change-file" hidden>' in page
    record_admission(problem.pk, False, "It is random.")
    assert claim("host") is None
    page = clients.owner.get(session.get_absolute_url()).content.decode()
    assert "follows" not in page
    assert "The files appear here" not in page.split("<template")[0]
    assert "No files were written." in page
    assert '<span data-show="change-file">' in page
    assert f'href="/problems/new/?from={problem.pk}"' in page


def test_a_running_session_can_be_stopped_by_its_team_only(
    clients: Clients, session: Session
) -> None:
    address = f"/sessions/{session.pk}/stop/"
    assert address in clients.owner.get(session.get_absolute_url()).content.decode()
    assert clients.stranger.post(address).status_code == 404
    assert clients.colleague.post(address).status_code == 302
    session.refresh_from_db()
    assert session.state == "stopping"
    assert address not in clients.owner.get(session.get_absolute_url()).content.decode()


def test_stopping_twice_is_no_error(clients: Clients, session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(state="finished")
    page = clients.owner.post(f"/sessions/{session.pk}/stop/", follow=True)
    assert page.status_code == 200
    assert b"The session is already finished." in page.content


def test_files_are_given_for_snapshots_of_this_session_alone(
    clients: Clients, session: Session
) -> None:
    assert session.best_snapshot is not None
    address = f"/sessions/{session.pk}/files/"
    piece = clients.owner.get(address, {"snapshot": session.best_snapshot.digest})
    assert b'data-path="kernels/double.cpp"' in piece.content
    assert b"<html" not in piece.content
    assert clients.owner.get(address, {"snapshot": session.problem.digest}).status_code == 404
    assert clients.owner.get(address).status_code == 404


def test_unknown_states_are_shown_by_their_name(clients: Clients, session: Session) -> None:
    append(session.pk, EventKind.SESSION_STATE, {"state": "long_gone", "reason": ""})
    assert b"Long gone" in clients.owner.get(session.get_absolute_url()).content


def test_a_session_without_a_kernel_has_nothing_to_download(
    clients: Clients, session: Session
) -> None:
    Session.objects.filter(pk=session.pk).update(best_snapshot=None, best_evaluation=None)
    answer = clients.owner.get(f"/sessions/{session.pk}/source.zip")
    assert answer.status_code == 409
    assert b"There is nothing to download" in answer.content
    assert clients.stranger.get(f"/sessions/{session.pk}/source.zip").status_code == 404
