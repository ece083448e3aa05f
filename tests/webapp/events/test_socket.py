"""The socket replays from its cursor, goes on live, and depends on no bell."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from tests.webapp.sockets import Socket
from webapp.asgi import application
from webapp.events import hub
from webapp.events.bells import send_delta, stream_group
from webapp.events.models import Stream
from webapp.events.services import append, open_stream
from workers.protocol.events import EventKind


def write(stream: Stream, turn: int) -> None:
    append(stream.pk, EventKind.TURN_STARTED, {"turn": turn})


async def write_later(stream: Stream, turn: int) -> None:
    await sync_to_async(write)(stream, turn)


def cookie_of(user) -> bytes:
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={c.value}" for name, c in client.cookies.items()).encode()


def socket(stream_id, cookie: bytes = b"", after: str = "", origin: bytes = b"http://localhost"):
    headers = [(b"origin", origin), (b"host", b"localhost"), (b"cookie", cookie)]
    query = f"?after={after}" if after else ""
    return Socket(application, f"/ws/streams/{stream_id}/{query}", headers)


async def events_of(communicator, count: int) -> list[int]:
    """The numbers of the next events, as they come; fails when they do not come."""
    seen: list[int] = []
    while len(seen) < count:
        frame = await communicator.frame()
        if frame["type"] == "events":
            seen += [event["seq"] for event in frame["events"]]
    return seen


@pytest.fixture
def stream(people) -> Stream:
    made = open_stream(uuid.uuid4(), people.team)
    for turn in (1, 2, 3):
        write(made, turn)
    return made


@pytest.fixture
def cookie(people) -> bytes:
    return cookie_of(people.colleague)


async def test_it_replays_all_and_goes_on_live(stream, cookie):
    client = socket(stream.pk, cookie)
    assert await client.connect()
    assert await events_of(client, 3) == [1, 2, 3]
    await write_later(stream, 4)
    assert await events_of(client, 1) == [4]
    await client.disconnect()


async def test_it_replays_from_the_cursor(stream, cookie):
    client = socket(stream.pk, cookie, after="2")
    await client.connect()
    assert await events_of(client, 1) == [3]
    await client.disconnect()


@pytest.mark.parametrize("after", ["-1", "nonsense", "9" * 40])
async def test_a_senseless_cursor_replays_all(stream, cookie, after):
    client = socket(stream.pk, cookie, after=after)
    await client.connect()
    assert await events_of(client, 3) == [1, 2, 3]
    await client.disconnect()


async def test_a_refresh_in_the_middle_shows_each_event_once(stream, cookie):
    first = socket(stream.pk, cookie)
    await first.connect()
    seen = await events_of(first, 3)
    await first.disconnect()
    await write_later(stream, 4)
    again = socket(stream.pk, cookie, after=str(seen[-1]))
    await again.connect()
    await write_later(stream, 5)
    assert seen + await events_of(again, 2) == [1, 2, 3, 4, 5]
    await again.disconnect()


async def test_it_survives_lost_bells(stream, cookie, settings):
    client = socket(stream.pk, cookie, after="3")
    await client.connect()
    await asyncio.sleep(0.3)
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    for turn in (4, 5):
        await write_later(stream, turn)
    assert await events_of(client, 2) == [4, 5]
    await client.disconnect()


async def test_it_works_without_redis(stream, cookie, settings, tmp_path):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [f"unix://{tmp_path}/nobody.sock"]},
        }
    }
    client = socket(stream.pk, cookie)
    await client.connect()
    assert await events_of(client, 3) == [1, 2, 3]
    await write_later(stream, 4)
    assert await events_of(client, 1) == [4]
    await client.disconnect()


async def test_a_process_reads_a_stream_once_for_all_its_sockets(stream, cookie):
    clients = [socket(stream.pk, cookie) for _ in range(3)]
    for client in clients:
        await client.connect()
        assert await events_of(client, 3) == [1, 2, 3]
    hubs = hub._hubs[asyncio.get_running_loop()]
    assert list(hubs) == [stream.pk]
    assert len(hubs[stream.pk].readers) == 3
    await write_later(stream, 4)
    for client in clients:
        assert await events_of(client, 1) == [4]
        await client.disconnect()
    await asyncio.sleep(0.05)
    assert stream.pk not in hubs


async def test_deltas_reach_the_page_and_carry_no_number(stream, cookie):
    client = socket(stream.pk, cookie, after="3")
    await client.connect()
    await _until_listening(stream)
    await send_delta(stream.pk, 4, "void ")
    await send_delta(stream.pk, 4, "kernel")
    text = ""
    while text != "void kernel":
        frame = await client.frame()
        assert frame["type"] == "delta"
        assert frame["turn"] == 4
        text += frame["text"]
    await client.disconnect()


async def _until_listening(stream: Stream) -> None:
    hubs = hub._hubs.setdefault(asyncio.get_running_loop(), {})
    while stream.pk not in hubs:
        await asyncio.sleep(0.01)
    found = hubs[stream.pk]
    await asyncio.wait_for(found.bell.subscribed.wait(), 5)


async def close_code(client) -> int:
    """Connect and return the code with which the site closes."""
    assert await client.connect()
    message = await client.receive_output(timeout=5)
    assert message["type"] == "websocket.close"
    return message["code"]


async def test_a_visitor_is_asked_to_sign_in(stream):
    assert await close_code(socket(stream.pk)) == 4401


async def test_a_stranger_sees_no_more_than_of_a_stream_that_does_not_exist(stream, people):
    cookie = await sync_to_async(cookie_of)(people.stranger)
    assert await close_code(socket(stream.pk, cookie)) == 4404
    assert await close_code(socket(uuid.uuid4(), cookie)) == 4404


async def test_another_site_cannot_open_it(stream, cookie):
    client = socket(stream.pk, cookie, origin=b"http://evil.example")
    assert not await client.connect()


async def test_who_leaves_the_team_loses_the_stream(stream, cookie, people, monkeypatch):
    monkeypatch.setattr("webapp.events.consumers.PING_SECONDS", 0.2)
    client = socket(stream.pk, cookie, after="3")
    await client.connect()
    await sync_to_async(people.colleague.memberships.all().delete)()
    while (message := await client.receive_output(timeout=5))["type"] != "websocket.close":
        pass
    assert message["code"] == 4404


async def test_a_quiet_socket_gets_pings(stream, cookie, monkeypatch):
    monkeypatch.setattr("webapp.events.consumers.PING_SECONDS", 0.2)
    client = socket(stream.pk, cookie, after="3")
    await client.connect()
    assert (await client.frame()) == {"type": "ping"}
    await client.disconnect()


def test_groups_are_named_as_channels_wants(stream):
    assert stream_group(stream.pk) == f"stream.{stream.pk.hex}"
