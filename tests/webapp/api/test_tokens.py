"""API tokens: shown once, hashed, expiring, revocable."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.api.conftest import Api, refused
from webapp.api.models import ApiToken
from webapp.api.tokens import make_token, user_of
from webapp.common.errors import UserError


def test_a_token_is_shown_once_and_kept_as_a_hash(owner, people):
    made = owner.post("tokens", {"name": "laptop", "days": 7}).json()
    text = made["token"]
    assert text.startswith("wsp_")
    assert user_of(text) == people.owner
    row = ApiToken.objects.get(pk=made["id"])
    assert text not in "".join(str(value) for value in row.__dict__.values())
    assert all("token" not in shown for shown in owner.get("tokens").json())


def test_an_expired_a_revoked_and_an_invented_token_are_refused(people, owner):
    token, text = make_token(people.owner, "old")
    assert user_of(text) == people.owner
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert user_of(text) is None
    token, text = make_token(people.owner, "lost")
    assert owner.delete(f"tokens/{token.pk}").status_code == 204
    assert user_of(text) is None
    owner.headers["authorization"] = "Bearer wsp_invented"
    assert refused(owner.get("problems"), 401, "unknown, revoked or expired")
    owner.headers["authorization"] = "Bearer"
    assert refused(owner.get("problems"), 401, "Authorization: Bearer")


def test_the_token_of_a_locked_user_is_refused(people):
    text = make_token(people.colleague, "x")[1]
    people.colleague.is_active = False
    people.colleague.save()
    assert user_of(text) is None


def test_nobody_revokes_the_token_of_another(people, stranger):
    token, text = make_token(people.owner, "mine")
    assert refused(stranger.delete(f"tokens/{token.pk}"), 404)
    assert user_of(text) == people.owner


@pytest.mark.parametrize(("name", "days"), [("", 5), ("  ", 5), ("x", 0), ("x", 366)])
def test_it_refuses_a_token_without_name_or_end(people, name, days):
    with pytest.raises(UserError):
        make_token(people.owner, name, days)


def test_use_is_noted_no_finer_than_a_minute(people):
    token, text = make_token(people.owner, "x")
    user_of(text)
    first = ApiToken.objects.get(pk=token.pk).last_used_at
    user_of(text)
    assert ApiToken.objects.get(pk=token.pk).last_used_at == first


def test_a_token_speaks_for_its_user_only(people, problem):
    assert Api(people.stranger).get(f"problems/{problem.pk}").status_code == 404
