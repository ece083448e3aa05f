"""The seam to whoever watches and remembers."""

from __future__ import annotations

from typing import Protocol

from agent.evaluator import Judged
from agent.session import Best, TurnRecord
from workers.protocol.codec import Json
from workers.protocol.events import EventKind
from workers.protocol.problem import Stage


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


def evaluation_body(judged: Judged, stage: Stage) -> dict[str, Json]:
    """The body of the event `evaluation`; the speed-up against eager is null where nothing was timed."""
    verdict = judged.evaluation
    speedup = verdict.timing.speedup_eager if verdict.timing else None
    return {
        "evaluation": judged.reference,
        "status": verdict.status.value,
        "stage": stage.value,
        "summary": verdict.summary,
        "speedup": speedup.median if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
    }


def best_body(best: Best) -> dict[str, Json]:
    """The body of the event `best`."""
    return {
        "turn": best.turn,
        "evaluation": best.evaluation,
        "snapshot": best.snapshot,
        "speedup": best.speedup.median,
        "low": best.speedup.low,
        "high": best.speedup.high,
    }
