"""Bells through a real Redis: fast while it is there, and back after it was away."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from tests.webapp.redis_server import RedisServer
from webapp.evaluations.flow import backlog
from webapp.events import hub
from webapp.events.listening import Bell
from webapp.events.models import Stream
from webapp.events.services import append, open_stream
from workers.protocol.events import EventKind


@pytest.fixture
def redis(settings) -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder) / "redis.sock")
        server.start()
        settings.REDIS_URL = server.url
        settings.CHANNEL_LAYERS = {
            "default": {
                "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
                "CONFIG": {"hosts": [server.url]},
            }
        }
        yield server
        server.kill()


@pytest.fixture
def stream(people) -> Stream:
    return open_stream(uuid.uuid4(), people.team)


async def write(stream: Stream, turn: int) -> None:
    await sync_to_async(append)(stream.pk, EventKind.TURN_STARTED, {"turn": turn})


async def next_seqs(reader: hub.Reader, count: int, seconds: float = 10) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(seconds):
        while len(seen) < count:
            events, _ = await reader.next(1)
            seen += [event.seq for event in events]
    return seen


async def test_an_event_reaches_a_reader_in_under_100_ms_at_the_median(redis, stream):
    reader = hub.join(stream.pk, 0)
    await asyncio.wait_for(reader.hub.bell.subscribed.wait(), 5)
    await asyncio.sleep(0.2)
    took = []
    for turn in range(15):
        began = time.monotonic()
        await write(stream, turn)
        assert await next_seqs(reader, 1) == [turn + 1]
        took.append(time.monotonic() - began)
    hub.leave(reader)
    assert statistics.median(took) < 0.1, took


async def test_bells_come_back_after_redis_was_killed(redis, stream):
    reader = hub.join(stream.pk, 0)
    await write(stream, 1)
    assert await next_seqs(reader, 1) == [1]
    redis.kill()
    await write(stream, 2)
    assert await next_seqs(reader, 1) == [2]
    redis.start()
    # The next bell that gets through counts; until then the reader looks by itself.
    fastest = 10.0
    for turn in range(3, 18):
        began = time.monotonic()
        await write(stream, turn)
        assert await next_seqs(reader, 1) == [turn]
        fastest = min(fastest, time.monotonic() - began)
        if fastest < 0.3:
            break
        await asyncio.sleep(0.5)
    hub.leave(reader)
    assert fastest < 0.3


async def test_a_bell_that_was_rung_before_anybody_listened_is_not_missed(redis):
    bell = Bell("work")
    listening = asyncio.create_task(bell.listen())
    assert await bell.wait(5)
    listening.cancel()


def test_the_backlog_is_known_or_unknown_but_never_guessed(redis):
    assert backlog() == 0
    redis.kill()
    assert backlog() is None
