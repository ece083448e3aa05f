"""The seam to whoever writes the next turn."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workers.protocol.codec import Json
from workers.protocol.problem import Target
from workers.protocol.transcript import Tokens, ToolCall, TranscriptEntry, Usage

Delta = Callable[[str], Awaitable[None]]

_UNSTORABLE = re.compile("[\\0\\ud800-\\udfff]")
_MARK = "\ufffd"


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


def storable(reply: Reply) -> Reply:
    """The reply without characters that databases and files refuse: NUL and halves of surrogate pairs."""
    calls = tuple(
        dataclasses.replace(
            call,
            id=_UNSTORABLE.sub(_MARK, call.id),
            tool=_UNSTORABLE.sub(_MARK, call.tool),
            arguments={_UNSTORABLE.sub(_MARK, k): _cleaned(v) for k, v in call.arguments.items()},
        )
        for call in reply.tool_calls
    )
    return dataclasses.replace(reply, text=_UNSTORABLE.sub(_MARK, reply.text), tool_calls=calls)


def _cleaned(value: Json) -> Json:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_MARK, value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_UNSTORABLE.sub(_MARK, k): _cleaned(v) for k, v in value.items()}
    return value


class Author(Protocol):
    """A pure function of task and transcript: no hidden state, so that a session can be resumed anywhere."""

    async def reply(self, task: Task, transcript: Sequence[TranscriptEntry], delta: Delta) -> Reply:
        """Write the next turn. `delta` takes pieces of the text while they appear."""
        ...
