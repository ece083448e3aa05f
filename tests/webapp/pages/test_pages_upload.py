"""The upload form: what is typed is kept, errors stand beside it, one step leads to the live page."""

from __future__ import annotations

import dataclasses
import html

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from tests.webapp.conftest import MODEL, People
from tests.webapp.pages.conftest import Clients
from tests.webapp.verdicts import DEVICE, ENVIRONMENT
from webapp.common.artifacts import artifact_store
from webapp.evaluations.models import Evaluation
from webapp.problems.models import Problem
from webapp.studio.models import Session
from webapp.teams.models import Membership
from workers.capabilities import announce
from workers.protocol.capabilities import Capabilities
from workers.protocol.problem import Target


def send(client: Client, **fields: object) -> HttpResponse:
    given: dict[str, object] = {"model": MODEL.decode(), "title": "", "threads": "", "spec": ""}
    return client.post("/problems/new/", {**given, **fields})  # type: ignore[return-value]


def test_a_pasted_model_becomes_a_problem_that_is_checked(clients: Clients) -> None:
    answer = send(clients.owner, title="My model")
    problem = Problem.objects.get(title="My model")
    assert answer.headers["Location"] == problem.get_absolute_url()
    assert problem.state == "checking"
    assert Evaluation.objects.get(problem=problem).stages == ["inspect"]
    assert not Session.objects.exists()


def test_optimise_at_once_leads_straight_to_the_live_page(clients: Clients) -> None:
    answer = send(clients.owner, optimise="on")
    session = Session.objects.get()
    assert answer.headers["Location"] == session.get_absolute_url()
    assert session.state == "queued"
    page = clients.owner.get(session.get_absolute_url())
    assert b"Queued" in page.content


def test_the_form_offers_to_optimise_at_once(clients: Clients) -> None:
    page = clients.owner.get("/problems/new/").content.decode()
    assert '<input type="checkbox" name="optimise" checked>' in page


def test_a_chosen_file_is_taken_as_it_is(clients: Clients) -> None:
    file = SimpleUploadedFile("anything.py", MODEL.replace(b"x * 2", b"x * 3"))
    send(clients.owner, model="", model_file=file, title="From a file")
    assert Problem.objects.get(title="From a file")


def test_threads_and_a_spec_are_written_into_the_problem(clients: Clients) -> None:
    send(clients.owner, title="Three", threads="3")
    assert Problem.objects.get(title="Three").spec.threads == 3
    send(clients.owner, spec='title = "By spec"\nthreads = 2\n', threads="3")
    assert Problem.objects.get(title="By spec").spec.threads == 2


BROKEN = "class Model(\n  # <b>mine</b> & 'yours'\n"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model": BROKEN}, "model.py line"),
        ({"model": BROKEN, "model_file": ""}, "model.py line"),
        ({"model": "x = 1\n"}, "has no class Model"),
        ({"model": ""}, "model.py is missing"),
        ({"threads": "many"}, "Write a whole number of threads"),
        ({"threads": "0"}, "At least one thread"),
        ({"spec": "threads = 'x'"}, "problem.toml"),
        ({"spec": "no toml"}, "problem.toml"),
    ],
)
def test_an_error_is_shown_in_place_and_nothing_typed_is_lost(
    clients: Clients, fields: dict[str, object], sentence: str
) -> None:
    given = {"title": "Kept title", "threads": "2", "spec": "", "model": MODEL.decode(), **fields}
    answer = send(clients.owner, **given)
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 200
    assert sentence in page
    assert str(given["model"]) in page
    assert "Kept title" in page
    assert f'value="{given["threads"]}"' in page
    assert str(given["spec"]) in page
    assert 'aria-invalid="true"' in page
    assert not Problem.objects.exists()


def test_what_was_typed_is_escaped(clients: Clients) -> None:
    page = send(clients.owner, model=BROKEN).content.decode()
    assert "<b>mine</b>" not in page
    assert "&lt;b&gt;mine&lt;/b&gt;" in page


def test_a_file_that_fails_is_shown_as_text(clients: Clients) -> None:
    file = SimpleUploadedFile("model.py", b"class Wrong: pass\n")
    page = send(clients.owner, model="", model_file=file).content.decode()
    assert "class Wrong: pass" in page
    assert "has no class Model" in page


def test_a_binary_or_huge_file_is_refused_with_a_sentence(clients: Clients) -> None:
    binary = send(clients.owner, model="", model_file=SimpleUploadedFile("m.py", b"\xff\xfe\x00"))
    assert "UTF-8" in binary.content.decode()
    huge = SimpleUploadedFile("big.bin", b"x" * (300 << 10))
    answer = send(clients.owner, model="kept", model_file=huge)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "307,200 bytes" in page
    assert ">\nkept</textarea>" in page


def test_the_same_model_again_leads_to_the_problem_that_exists(
    clients: Clients, problem: Problem
) -> None:
    answer = send(clients.colleague, title="Another title")
    assert answer.headers["Location"] == problem.get_absolute_url()
    assert Problem.objects.count() == 1
    page = clients.colleague.get(problem.get_absolute_url()).content.decode()
    assert "uploaded these very files before, as “Doubling”" in page
    send(clients.colleague, model=MODEL.decode().replace("* 2", "* 4"), title="New")
    page = clients.colleague.get(Problem.objects.get(title="New").get_absolute_url())
    assert b"before" not in page.content


def test_a_person_without_a_team_is_told_what_to_do(people: People) -> None:
    Membership.objects.filter(user=people.stranger).delete()
    client = Client()
    client.force_login(people.stranger)
    page = send(client).content.decode()
    assert "ask an administrator to add you to one" in page
    assert html.escape("torch.randn(8, 8)") in page


def test_a_problem_can_be_brought_up_to_be_changed(clients: Clients, problem: Problem) -> None:
    address = f"/problems/new/?from={problem.pk}"
    page = html.unescape(clients.colleague.get(address).content.decode())
    assert MODEL.decode() in page
    assert 'value="Doubling"' in page
    for client, other in ((clients.stranger, address), (clients.owner, "/problems/new/?from=x")):
        answer = client.get(other)
        assert answer.status_code == 200
        assert b"torch.randn(8, 8)" not in answer.content


@pytest.mark.parametrize("fields", [{"threads": "64"}, {"spec": "threads = 64\n", "threads": "2"}])
def test_more_threads_than_any_device_has_are_refused_beside_the_field_that_asked(
    clients: Clients, fields: dict[str, str]
) -> None:
    device = dataclasses.replace(DEVICE, cores=2)
    offer = Capabilities("host", ("device.cpu",), (Target.CPU,), ENVIRONMENT, device)
    announce(artifact_store(), offer)
    page = send(clients.owner, **fields).content.decode()
    before, _, after = page.partition("device here has 2 cores: ask for at most 2.")
    assert after
    assert before.rsplit("<label", 1)[1].startswith(
        ' class="off-screen" for="id_spec"' if "spec" in fields else ' for="id_threads"'
    )
    assert not Problem.objects.exists()
    announce(artifact_store(), dataclasses.replace(offer, worker="other host"))
    announce(
        artifact_store(), dataclasses.replace(offer, device=dataclasses.replace(device, cores=64))
    )
    assert send(clients.owner, **fields).status_code == 302


def test_examples_can_be_tried(clients: Clients) -> None:
    page = clients.owner.get("/problems/new/").content.decode()
    assert page.count("data-example=") >= 4
    assert "Gated RMS norm" in page
