"""Every page answers its team, hides from strangers, sends nobody away without a sign-in page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.webapp.pages.conftest import Clients
from webapp.evaluations.models import Evaluation
from webapp.problems.models import Problem
from webapp.studio.models import Session

INLINE = re.compile(
    rb"<script(?![^>]*\bsrc=)(?![^>]*application/json)|<style|\sstyle=|\son[a-z]+=\"|javascript:",
    re.I,
)


@pytest.fixture
def addresses(problem: Problem, session: Session, inspected: Evaluation) -> dict[str, str]:
    assert session.best_evaluation is not None
    return {
        "list": "/",
        "upload": "/problems/new/",
        "problem": problem.get_absolute_url(),
        "live": session.get_absolute_url(),
        "verdict": session.best_evaluation.get_absolute_url(),
        "files": f"/sessions/{session.pk}/files/?snapshot={session.best_snapshot.digest}",  # type: ignore[union-attr]
    }


PRIVATE = ("problem", "live", "verdict", "files")


def test_owner_and_colleague_see_every_page(clients: Clients, addresses: dict[str, str]) -> None:
    for client in (clients.owner, clients.colleague):
        for name, address in addresses.items():
            assert client.get(address).status_code == 200, name


@pytest.mark.parametrize("name", PRIVATE)
def test_a_stranger_finds_nothing(clients: Clients, addresses: dict[str, str], name: str) -> None:
    answer = clients.stranger.get(addresses[name])
    assert answer.status_code == 404
    assert b"There is nothing here" in answer.content


def test_a_strangers_list_is_empty_and_says_what_to_do(
    clients: Clients, addresses: dict[str, str]
) -> None:
    page = clients.stranger.get("/").content.decode()
    assert "Doubling" not in page
    assert "No problems yet" in page
    assert 'href="/problems/new/"' in page


def test_nobody_is_asked_to_sign_in_and_led_back(
    clients: Clients, addresses: dict[str, str]
) -> None:
    for address in addresses.values():
        answer = clients.nobody.get(address)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/accounts/login/?next=/")


def test_no_page_holds_an_inline_script_or_style_and_all_carry_the_policy(
    clients: Clients, addresses: dict[str, str]
) -> None:
    for name, address in {**addresses, "missing": "/nowhere/"}.items():
        answer = clients.owner.get(address)
        found = INLINE.search(answer.content)
        assert found is None, f"{name}: {found}"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy, name
        assert "unsafe" not in policy, name


def test_no_page_asks_another_host_for_anything(
    clients: Clients, addresses: dict[str, str]
) -> None:
    for name, address in addresses.items():
        found = re.search(
            rb"(?:src|href|action)=\"(?:https?:)?//", clients.owner.get(address).content
        )
        assert found is None, name


def test_pages_are_titled_and_have_one_main_heading(
    clients: Clients, addresses: dict[str, str]
) -> None:
    for name in ("list", "upload", "problem", "live", "verdict"):
        page = clients.owner.get(addresses[name]).content.decode()
        assert len(re.findall(r"<h1[ >]", page)) == 1, name
        assert "Warpsmith</title>" in page, name
        assert '<html lang="en">' in page, name


def test_a_forged_form_gets_a_page_of_ours(people: object, problem: Problem) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/accounts/login/", {"username": "owner", "password": "x"})
    assert answer.status_code == 403
    assert b"Warpsmith" in answer.content


def test_a_request_that_cannot_be_read_gets_a_page_of_ours() -> None:
    answer = Client().get("/", HTTP_HOST="evil.example")
    assert answer.status_code == 400
    assert b"This request could not be read" in answer.content
    assert b"evil.example" not in answer.content


def test_a_mistake_of_the_site_gets_a_page_of_ours(clients: Clients, session: Session) -> None:
    Evaluation.objects.filter(pk=session.best_evaluation_id).update(verdict_data={"broken": True})
    clients.owner.raise_request_exception = False
    answer = clients.owner.get(f"/evaluations/{session.best_evaluation_id}/")
    assert answer.status_code == 500
    assert b"The site made a mistake" in answer.content
    assert b"broken" not in answer.content
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
