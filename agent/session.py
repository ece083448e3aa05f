"""What goes into a session, what comes out, and what is kept after each turn."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.config import Limits
from workers.protocol.problem import Target
from workers.protocol.transcript import TranscriptEntry
from workers.protocol.verdict import Ratio


class SessionState(enum.StrEnum):
    """How a run of the loop ended."""

    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Best:
    """The fastest correct snapshot so far. Ordered by the lower end of its interval."""

    turn: int
    snapshot: str
    """Digest of the author's files."""
    evaluation: str
    """Reference of the verdict (`Judged.reference`)."""
    speedup: Ratio
    """Against eager."""

    def beats(self, other: Best | None) -> bool:
        """Whether this one is faster than can be vouched for the other."""
        return other is None or self.speedup.low > other.speedup.low


@dataclass(frozen=True)
class SessionInput:
    """One session, fresh or to be resumed behind its last finished turn."""

    problem: Mapping[str, bytes]
    """`model.py` and `problem.toml`."""
    target: Target = Target.CPU
    limits: Limits = field(default_factory=Limits)
    transcript: tuple[TranscriptEntry, ...] = ()
    """Entries of all finished turns, in order: `TurnRecord.entries` concatenated."""
    workspace: Mapping[str, bytes] = field(default_factory=dict)
    """The author's files after the last finished turn: `TurnRecord.files`."""
    best: Best | None = None
    elapsed_seconds: float = 0.0
    """Wall time that earlier runs of this session have used."""


@dataclass(frozen=True)
class TurnRecord:
    """A finished turn: all that is needed to go on behind it."""

    turn: int
    """Counted from 1."""
    text: str
    """What the author said."""
    entries: tuple[TranscriptEntry, ...]
    """The transcript's lines of this turn: the author's reply, then the tools' results."""
    snapshot: str
    """Digest of `files`; empty while the author has written nothing."""
    files: Mapping[str, bytes]
    """The author's files after the turn."""
    best: Best | None
    """The best so far, this turn included."""


@dataclass(frozen=True)
class SessionResult:
    """How it ended."""

    state: SessionState
    reason: str
    """One sentence for people."""
    best: Best | None = None
