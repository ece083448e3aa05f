"""Writing the log."""

from __future__ import annotations

import functools
from uuid import UUID

from django.db import transaction
from django.db.models import F

from webapp.events.bells import tick_stream
from webapp.events.models import LogEntry, Stream
from webapp.events.queries import as_event
from webapp.teams.models import Team
from workers.protocol.codec import Json, to_json
from workers.protocol.events import Event, EventKind

MAX_BODY_BYTES = 256 << 10
"""Larger things are artifacts; their digest goes into the event."""


def open_stream(stream_id: UUID, team: Team) -> Stream:
    """Begin the log of a thing that has this id."""
    return Stream.objects.create(pk=stream_id, team=team)


def append(stream_id: UUID, kind: EventKind, body: dict[str, Json]) -> Event:
    """Add an event and ring the bell once it is committed.

    The stream's row is updated first, which locks it until the commit, so that numbers have no gaps and
    become visible in order. Raises `Stream.DoesNotExist` for an unknown stream, ValueError for a body
    above MAX_BODY_BYTES.
    """
    size = len(to_json(body))
    if size > MAX_BODY_BYTES:
        raise ValueError(
            f"the body of a {kind} event has {size:,} bytes; {MAX_BODY_BYTES:,} are allowed"
        )
    with transaction.atomic():
        if Stream.objects.filter(pk=stream_id).update(last_seq=F("last_seq") + 1) != 1:
            raise Stream.DoesNotExist(f"no stream {stream_id}")
        seq = Stream.objects.values_list("last_seq", flat=True).get(pk=stream_id)
        entry = LogEntry.objects.create(stream_id=stream_id, seq=seq, kind=kind.value, body=body)
        transaction.on_commit(functools.partial(tick_stream, stream_id))
    return as_event(entry)
