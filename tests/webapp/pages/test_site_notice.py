"""Every page says why nothing can be judged, as long as that is so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from webapp.common import site_notice
from webapp.common.artifacts import artifact_store
from workers.capabilities import announce
from workers.protocol.capabilities import Capabilities
from workers.protocol.problem import Target
from workers.protocol.verdict import Environment

pytestmark = pytest.mark.django_db
REMEDY = "No sandbox works here; allow user namespaces with: sudo sysctl -w user.max_user_namespaces=15000"
READY = Capabilities(
    "one", ("device.cpu",), (Target.CPU,), Environment("1", "3.11", "2.13", "", "namespaces")
)
STUCK = dataclasses.replace(READY, worker="two", problem=REMEDY)


@pytest.fixture(autouse=True)
def looked_long_ago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(site_notice, "_LOOK_AGAIN_S", 0.0)
    yield
    site_notice._Looked.at = -site_notice._LOOK_AGAIN_S


def test_it_says_which_command_helps_where_no_worker_can_judge(client, people):
    announce(artifact_store(), STUCK)
    client.force_login(people.owner)
    assert REMEDY in client.get("/problems/new/").content.decode()


def test_strangers_are_told_nothing_about_the_host(client):
    announce(artifact_store(), STUCK)
    assert REMEDY not in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize("offers", [(), (READY,), (STUCK, READY)])
def test_it_is_silent_where_a_worker_can_or_none_has_said(client, people, offers):
    for offer in offers:
        announce(artifact_store(), offer)
    client.force_login(people.owner)
    assert "Nothing can be judged" not in client.get("/problems/new/").content.decode()
