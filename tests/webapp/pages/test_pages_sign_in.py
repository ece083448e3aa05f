"""Signing in by name and by a link that works once."""

from __future__ import annotations

from django.test import Client

from tests.webapp.conftest import People
from webapp.teams.services import make_entry_link


def test_the_right_password_leads_to_the_page_that_was_wanted(people: People) -> None:
    client = Client()
    form = {"username": "owner", "password": "owner-password", "next": "/problems/new/"}
    answer = client.post("/accounts/login/", form)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/problems/new/"


def test_a_wrong_password_keeps_the_name_and_says_one_sentence(people: People) -> None:
    answer = Client().post("/accounts/login/", {"username": "owner", "password": "wrong"})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "This name and password do not belong together" in page
    assert 'value="owner"' in page
    assert "wrong" not in page


def test_it_leads_nobody_to_another_site(people: People) -> None:
    form = {"username": "owner", "password": "owner-password", "next": "https://evil.example/"}
    answer = Client().post("/accounts/login/", form)
    assert answer.headers["Location"] == "/"


def test_a_link_signs_in_once(people: People) -> None:
    link = make_entry_link(people.owner)
    first, second = Client(), Client()
    assert first.get(link).headers["Location"] == "/"
    assert first.get("/").status_code == 200
    refused = second.get(link)
    assert refused.status_code == 410
    assert b"This link has done its work" in refused.content
    assert second.get("/").status_code == 302


def test_a_used_link_leads_on_whoever_is_signed_in(people: People) -> None:
    link = make_entry_link(people.owner)
    client = Client()
    client.get(link)
    assert client.get(link).headers["Location"] == "/"


def test_an_expired_link_signs_nobody_in(people: People) -> None:
    assert Client().get(make_entry_link(people.owner, hours=-1)).status_code == 410


def test_signing_out_needs_a_form_and_ends_the_session(people: People) -> None:
    client = Client()
    client.force_login(people.owner)
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/").status_code == 302
