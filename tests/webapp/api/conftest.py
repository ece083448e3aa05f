"""Clients that speak with tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from webapp.api.tokens import make_token
from webapp.teams.models import User


class Api:
    """`get`, `post` and `delete` under /api/v1/ in the name of a user; nobody when there is none."""

    def __init__(self, user: User | None) -> None:
        self.client = Client()
        self.headers = {}
        if user is not None:
            self.headers["authorization"] = f"Bearer {make_token(user, 'test')[1]}"

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1/{path}", headers=self.headers)

    def post(self, path: str, body: object = None) -> Any:
        text = json.dumps(body or {})
        return self.client.post(
            f"/api/v1/{path}", text, content_type="application/json", headers=self.headers
        )

    def delete(self, path: str) -> Any:
        return self.client.delete(f"/api/v1/{path}", headers=self.headers)


@pytest.fixture
def owner(people) -> Api:
    return Api(people.owner)


@pytest.fixture
def colleague(people) -> Api:
    return Api(people.colleague)


@pytest.fixture
def stranger(people) -> Api:
    return Api(people.stranger)


@pytest.fixture
def visitor(people) -> Api:
    return Api(None)


def refused(response: Any, status: int, *parts: str) -> bool:
    """Whether a response is a problem with this status whose detail holds the parts."""
    body = response.json()
    assert response["Content-Type"] == "application/problem+json", response
    assert (response.status_code, body["status"]) == (status, status), body
    assert all(part in body["detail"] for part in parts), body
    return True
