"""An owner, a colleague and a stranger; an artifact store of each test's own; no Redis unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from webapp.celery_app import app as celery_app
from webapp.problems.models import Problem, ProblemState
from webapp.problems.services import create_problem, record_admission
from webapp.teams.models import Role, Team, User
from webapp.teams.services import add_member, ensure_team
from workers.protocol.codec import from_json
from workers.protocol.requests import JobMessage

MODEL = b'''"""Doubles its input."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
'''


# Hints stay inside this process. Set before the app opens its first connection.
celery_app.conf.broker_url = "memory://"


def purge_hints() -> None:
    with celery_app.connection() as connection:
        for queue in ("build", "device.cpu", "web"):
            connection.default_channel.queue_declare(queue)
            connection.default_channel.queue_purge(queue)


@pytest.fixture
def hints() -> Callable[[str], list[JobMessage]]:
    """Takes the hints that lie in a queue."""

    def take(queue: str) -> list[JobMessage]:
        found: list[JobMessage] = []
        with celery_app.connection() as connection:
            simple = connection.SimpleQueue(queue)
            while True:
                try:
                    message = simple.get_nowait()
                except simple.Empty:
                    return found
                message.ack()
                found.append(from_json(JobMessage, message.payload[0][0]))

    return take


@dataclass(frozen=True)
class People:
    owner: User
    colleague: User
    stranger: User
    team: Team


@pytest.fixture(autouse=True)
def site(settings, tmp_path: Path) -> Iterator[None]:
    """Files in a folder of the test, bells and hints inside the process."""
    settings.HOME = tmp_path
    settings.ARTIFACTS = tmp_path / "artifacts"
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    yield
    purge_hints()


@pytest.fixture
def people(transactional_db: None) -> People:
    owner = User.objects.create_user("owner", password="owner-password")
    colleague = User.objects.create_user("colleague", password="colleague-password")
    stranger = User.objects.create_user("stranger", password="stranger-password")
    team = ensure_team("Workshop", owner)
    add_member(team, colleague, Role.MEMBER)
    ensure_team("Elsewhere", stranger)
    return People(owner, colleague, stranger, team)


@pytest.fixture
def problem(people: People) -> Problem:
    """A problem that the judge has admitted."""
    made = create_problem(people.team, people.owner, {"model.py": MODEL}, "Doubling")
    assert record_admission(made.pk, True, "")
    return Problem.objects.get(pk=made.pk, state=ProblemState.READY)
