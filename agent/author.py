"""The seam to whoever writes the next turn."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.protocol.problem import Target
from workers.protocol.transcript import Tokens, ToolCall, TranscriptEntry, Usage

Delta = Callable[[str], Awaitable[None]]


class Ending(enum.StrEnum):
    """How an author ends a session by itself."""

    DONE = "done"
    """It has nothing better to try."""
    GAVE_UP = "gave_up"
    """It cannot solve the problem; the reply's text says why."""


@dataclass(frozen=True)
class Task:
    """What an author knows besides the transcript."""

    problem: Mapping[str, bytes]
    """`model.py` and `problem.toml`."""
    target: Target = Target.CPU


@dataclass(frozen=True)
class Reply:
    """One turn of an author: what it says and which tools it calls, in order."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    ending: Ending | None = None
    """Set where the session shall end after this reply; `text` is then the reason."""
    usage: Usage = field(default_factory=Usage)
    tokens: Tokens | None = None


class Author(Protocol):
    """A pure function of task and transcript: no hidden state, so that a session can be resumed anywhere."""

    async def reply(self, task: Task, transcript: Sequence[TranscriptEntry], delta: Delta) -> Reply:
        """Write the next turn. `delta` takes pieces of the text while they appear."""
        ...
