"""The event log has no gaps, whoever writes, and never waits for Redis."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from django.db import IntegrityError, connection, transaction

from webapp.events.models import LogEntry, Stream
from webapp.events.queries import after, last_seq, may_read
from webapp.events.services import MAX_BODY_BYTES, append, open_stream
from workers.protocol.events import EventKind

WRITERS = 4
EACH = 25


@pytest.fixture
def stream(people) -> Stream:
    return open_stream(uuid.uuid4(), people.team)


def test_concurrent_writers_leave_no_gap_and_no_double(stream):
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(EACH):
                append(stream.pk, EventKind.MESSAGE, {"turn": turn, "role": str(number)})
        except BaseException as error:  # noqa: BLE001 - shown in the main thread
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    events = after(stream.pk, 0)
    assert [event.seq for event in events] == list(range(1, WRITERS * EACH + 1))
    for number in range(WRITERS):
        mine = [e.body["turn"] for e in events if e.body["role"] == str(number)]
        assert mine == list(range(EACH))


def test_an_event_that_is_rolled_back_leaves_no_gap(stream):
    append(stream.pk, EventKind.TURN_STARTED, {"turn": 1})
    with transaction.atomic():
        append(stream.pk, EventKind.TURN_STARTED, {"turn": 2})
        transaction.set_rollback(True)
    append(stream.pk, EventKind.TURN_STARTED, {"turn": 3})
    assert [(e.seq, e.body["turn"]) for e in after(stream.pk, 0)] == [(1, 1), (2, 3)]


def test_the_database_refuses_a_number_twice(stream):
    append(stream.pk, EventKind.TURN_STARTED, {"turn": 1})
    with pytest.raises(IntegrityError):
        LogEntry.objects.create(stream=stream, seq=1, kind="message")


def test_a_reader_gets_pages_behind_its_cursor(stream):
    for turn in range(5):
        append(stream.pk, EventKind.TURN_STARTED, {"turn": turn})
    assert [e.seq for e in after(stream.pk, 2, limit=2)] == [3, 4]
    assert last_seq(stream.pk) == 5
    assert after(stream.pk, 5) == []


def test_it_refuses_a_body_that_should_be_an_artifact(stream):
    with pytest.raises(ValueError, match="are allowed"):
        append(stream.pk, EventKind.MESSAGE, {"text": "x" * MAX_BODY_BYTES})
    assert last_seq(stream.pk) == 0


def test_it_refuses_an_unknown_stream(people):
    with pytest.raises(Stream.DoesNotExist):
        append(uuid.uuid4(), EventKind.MESSAGE, {})


def test_only_the_team_may_read(stream, people):
    assert may_read(people.owner, stream.pk)
    assert may_read(people.colleague, stream.pk)
    assert not may_read(people.stranger, stream.pk)
    assert not may_read(people.owner, uuid.uuid4())


def test_a_member_who_left_may_no_longer_read(stream, people):
    people.colleague.memberships.all().delete()
    assert not may_read(people.colleague, stream.pk)


def test_without_redis_events_are_written_all_the_same(stream, settings, tmp_path):
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [f"unix://{tmp_path}/nobody.sock"]},
        }
    }
    began = time.monotonic()
    for turn in range(10):
        append(stream.pk, EventKind.TURN_STARTED, {"turn": turn})
    assert last_seq(stream.pk) == 10
    assert time.monotonic() - began < 5
