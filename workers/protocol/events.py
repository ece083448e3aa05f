"""Events: what happened in a stream (a session, later a training run), in order, for ever."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from workers.protocol.codec import Json


class EventKind(enum.StrEnum):
    """Kinds of durable events. The body's keys are written beside each."""

    SESSION_STATE = "session.state"
    """`state`, `reason`"""
    TURN_STARTED = "turn.started"
    """`turn`"""
    TURN_FINISHED = "turn.finished"
    """`turn`, `snapshot`, `text`"""
    MESSAGE = "message"
    """`turn`, `role`, `text`: what the author, a person or the system says"""
    TOOL_STARTED = "tool.started"
    """`turn`, `call`, `tool`, `arguments` (shortened for show)"""
    TOOL_FINISHED = "tool.finished"
    """`turn`, `call`, `tool`, `ok`, `summary`, `duration_ms`"""
    SNAPSHOT = "snapshot"
    """`turn`, `digest`, `files` (changed paths)"""
    EVALUATION = "evaluation"
    """`turn`, `evaluation` (id), `status`, `stage`, `summary`, `speedup`, `low`, `high`"""
    BEST = "best"
    """`turn`, `evaluation`, `snapshot`, `speedup`, `low`, `high`"""
    BASELINE = "baseline"
    """`status`, `compile_over_eager`, `low`, `high`: torch.compile's ratio became known"""


@dataclass(frozen=True)
class Event:
    """One durable event; `seq` starts at 1 in each stream and has no gaps."""

    stream: str
    seq: int
    at: str
    """UTC, ISO 8601 with milliseconds."""
    kind: EventKind
    body: dict[str, Json] = field(default_factory=dict)
    version: int = 1
