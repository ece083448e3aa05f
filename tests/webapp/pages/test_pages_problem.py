"""The list of problems and the page of one."""

from __future__ import annotations

from tests.webapp.conftest import MODEL, People
from tests.webapp.pages.conftest import Clients
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Evaluation
from webapp.evaluations.settling import settle
from webapp.problems.models import Problem
from webapp.problems.services import create_problem, record_admission
from webapp.studio.models import Session
from webapp.studio.services import create_session
from workers.evaluation.verdicts import infrastructure


def refused(people: People) -> Problem:
    model = b"import torch\nclass Model(torch.nn.Module):\n    def forward(self): pass\n"
    model += b"def get_inputs(): return []\ndef get_init_inputs(): return []\n"
    made = create_problem(people.team, people.owner, {"model.py": model}, "Random")
    assert record_admission(made.pk, False, "It gives other results when it runs twice.")
    return Problem.objects.get(pk=made.pk)


def test_the_list_shows_state_eager_time_sessions_and_the_best_speed_up(
    clients: Clients, session: Session, inspected: Evaluation
) -> None:
    page = clients.owner.get("/").content.decode()
    assert "Doubling" in page
    assert "3.50 ms" in page
    assert "2.50×" in page  # noqa: RUF001
    assert "(2.40 to 2.60)" in page
    assert 'data-badge="session" data-tone="live"' in page


def test_the_list_asks_the_database_the_same_for_many_problems(
    clients: Clients, people: People, session: Session, django_assert_max_num_queries: object
) -> None:
    for number in range(12):
        text = b"# %d\n" % number
        model = (
            text
            + b"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x\n"
        )
        model += b"def get_inputs(): return []\ndef get_init_inputs(): return []\n"
        create_problem(people.team, people.owner, {"model.py": model}, f"P{number}")
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        page = clients.owner.get("/").content.decode()
    assert "P11" in page


def test_a_ready_problem_shows_its_source_its_graph_and_the_button(
    clients: Clients, problem: Problem, inspected: Evaluation
) -> None:
    page = clients.owner.get(problem.get_absolute_url()).content.decode()
    assert 'id="model-py-8"' in page
    assert 'href="#model-py-8"' in page
    assert "float32[8, 8]" in page
    assert "64 FLOP" in page
    assert "0.250 ms" in page
    assert f"/problems/{problem.pk}/optimise/" in page


def test_a_refused_problem_says_why_and_has_no_button(clients: Clients, people: People) -> None:
    problem = refused(people)
    page = clients.owner.get(problem.get_absolute_url()).content.decode()
    assert "It gives other results when it runs twice." in page
    assert "/optimise/" not in page
    assert "data-waiting" not in page


def test_a_problem_that_is_checked_waits_by_itself(clients: Clients, problem: Problem) -> None:
    Problem.objects.filter(pk=problem.pk).update(state="checking")
    page = clients.owner.get(problem.get_absolute_url()).content.decode()
    assert "data-waiting" in page
    assert '<noscript><meta http-equiv="refresh"' in page


def test_a_refused_problem_leads_back_to_its_text(clients: Clients, people: People) -> None:
    problem = refused(people)
    page = clients.owner.get(problem.get_absolute_url()).content.decode()
    assert f'href="/problems/new/?from={problem.pk}"' in page
    assert b"It gives other results" in clients.owner.get("/").content


def test_a_check_that_failed_by_our_fault_can_be_made_again(
    clients: Clients, people: People
) -> None:
    problem = upload_problem(people.team, people.owner, {"model.py": MODEL})
    look = Evaluation.objects.get(problem=problem)
    assert settle(look.pk, infrastructure(look.request, "The host is gone."), lost=True)
    page = clients.owner.get(problem.get_absolute_url()).content.decode()
    assert "no fault of the file: The host is gone." in page
    assert "Change the file" not in page
    address = f"/problems/{problem.pk}/check/"
    assert address in page
    assert clients.stranger.post(address).status_code == 404
    assert clients.owner.get(address).status_code == 405
    assert clients.colleague.post(address).headers["Location"] == problem.get_absolute_url()
    problem.refresh_from_db()
    assert (problem.state, problem.reason) == ("checking", "")
    assert Evaluation.objects.filter(problem=problem, state="pending").count() == 1


def test_the_list_says_why_no_kernel_came_out(
    clients: Clients, people: People, problem: Problem
) -> None:
    def end(state: str, reason: str) -> None:
        made = create_session(people.owner, problem)
        Session.objects.filter(pk=made.pk).update(state=state, reason=reason)

    end("failed", "codegen cannot write a kernel for aten.fft yet.")
    end("stopped", "At owner's request.")
    page = clients.owner.get("/").content.decode()
    assert "codegen cannot write a kernel for aten.fft yet." in page
    assert "request." not in page
    create_session(people.owner, problem)
    assert "aten.fft" not in clients.owner.get("/").content.decode()


def test_the_list_is_silent_about_failures_once_a_kernel_came_out(
    clients: Clients, people: People, session: Session
) -> None:
    Session.objects.filter(pk=session.pk).update(state="finished")
    made = create_session(people.owner, session.problem)
    Session.objects.filter(pk=made.pk).update(state="failed", reason="It gave up.")
    assert b"It gave up." not in clients.owner.get("/").content


def test_optimise_starts_a_session_for_members_only(clients: Clients, problem: Problem) -> None:
    address = f"/problems/{problem.pk}/optimise/"
    assert clients.stranger.post(address).status_code == 404
    assert clients.nobody.post(address).status_code == 302
    assert not Session.objects.exists()
    assert clients.owner.get(address).status_code == 405
    answer = clients.colleague.post(address)
    assert answer.headers["Location"] == Session.objects.get().get_absolute_url()


def test_optimising_a_refused_problem_says_why_not(clients: Clients, people: People) -> None:
    problem = refused(people)
    answer = clients.owner.post(f"/problems/{problem.pk}/optimise/")
    assert answer.status_code == 409
    assert b"The problem was refused" in answer.content
