"""Reading the log."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from webapp.events.models import LogEntry, Stream
from webapp.teams.queries import Visitor, is_member
from workers.protocol.events import Event, EventKind

PAGE = 500
"""Events per read at most."""


def after(stream_id: UUID, seq: int, limit: int = PAGE) -> list[Event]:
    """Events behind `seq`, in order, `limit` at most."""
    entries = LogEntry.objects.filter(stream_id=stream_id, seq__gt=seq).order_by("seq")[:limit]
    return [as_event(entry) for entry in entries]


def last_seq(stream_id: UUID) -> int:
    """The sequence number of the newest event; 0 for an empty or unknown stream."""
    return Stream.objects.filter(pk=stream_id).values_list("last_seq", flat=True).first() or 0


def may_read(user: Visitor, stream_id: UUID) -> bool:
    """Whether the stream exists and belongs to a team of the user."""
    team_id = Stream.objects.filter(pk=stream_id).values_list("team_id", flat=True).first()
    return team_id is not None and is_member(user, team_id)


def as_event(entry: LogEntry) -> Event:
    """The event as every reader gets it."""
    return Event(
        stream=str(entry.stream_id),
        seq=entry.seq,
        at=iso(entry.at),
        kind=EventKind(entry.kind),
        body=entry.body,
    )


def iso(moment: datetime) -> str:
    """UTC, ISO 8601 with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
