"""`manage.py bootstrap` makes the first user once and always gives a way in."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from webapp.api.tokens import user_of
from webapp.teams.models import Membership, Team, User


def bootstrap(*arguments: str) -> dict[str, object]:
    output = StringIO()
    call_command("bootstrap", *arguments, stdout=output)
    found: dict[str, object] = json.loads(output.getvalue())
    return found


@pytest.mark.django_db(transaction=True)
def test_it_makes_user_team_and_password_once(tmp_path):
    first = bootstrap()
    kept = (tmp_path / "admin_password").read_text()
    assert (tmp_path / "admin_password").stat().st_mode & 0o777 == 0o600
    assert (first["user"], first["team"], first["created"]) == ("admin", "workshop", True)
    assert User.objects.get().check_password(kept)
    second = bootstrap()
    assert second["created"] is False
    assert second["entry"] != first["entry"]
    assert (User.objects.count(), Team.objects.count(), Membership.objects.count()) == (1, 1, 1)
    assert User.objects.get().check_password(kept)


@pytest.mark.django_db(transaction=True)
def test_a_given_password_is_used_and_a_changed_one_is_left_alone(settings, tmp_path):
    settings.ADMIN_PASSWORD = "given-by-the-host"
    bootstrap()
    user = User.objects.get()
    assert user.check_password("given-by-the-host")
    assert not (tmp_path / "admin_password").exists()
    user.set_password("changed-by-hand")
    user.save()
    bootstrap()
    assert User.objects.get().check_password("changed-by-hand")


@pytest.mark.django_db(transaction=True)
def test_it_gives_an_api_token_when_asked(tmp_path):
    assert "token" not in bootstrap()
    token = str(bootstrap("--token", "--token-days", "1")["token"])
    assert user_of(token) == User.objects.get()


@pytest.mark.django_db(transaction=True)
def test_the_entry_signs_in_once(tmp_path):
    entry = str(bootstrap()["entry"])
    browser = Client()
    browser.get(entry, follow=True)
    if "_auth_user_id" not in browser.session:
        browser.post(entry, follow=True)
    assert browser.session["_auth_user_id"] == str(User.objects.get().pk)
    other = Client()
    other.get(entry, follow=True)
    other.post(entry, follow=True)
    assert "_auth_user_id" not in other.session
