"""The seam to whoever watches and remembers."""

from __future__ import annotations

from typing import Protocol

from agent.session import TurnRecord
from workers.protocol.codec import Json
from workers.protocol.events import EventKind


class Listener(Protocol):
    """Receives what happens, in order. An error raised here ends the run: nothing goes on unrecorded.

    The loop emits `turn.started`, `message`, `tool.started`, `tool.finished`, `snapshot`,
    `evaluation` and `best`. It does not emit `session.state` and `baseline`: those belong to the caller,
    who knows more. Nor `turn.finished`: `turn_finished` stands for it, so that the record and its event
    can be written in one transaction.
    """

    async def emit(self, kind: EventKind, body: dict[str, Json]) -> None:
        """Append an event; durable when this returns."""
        ...

    async def delta(self, turn: int, text: str) -> None:
        """A piece of the author's reply while it is being written; may be lost."""
        ...

    async def turn_finished(self, turn: TurnRecord) -> None:
        """Keep the record and append `turn.finished` with body `finished_body(turn)`; durable when this returns."""
        ...


def finished_body(turn: TurnRecord) -> dict[str, Json]:
    """The body of the event `turn.finished`."""
    return {"turn": turn.turn, "snapshot": turn.snapshot, "text": turn.text}
