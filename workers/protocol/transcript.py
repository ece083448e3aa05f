"""The transcript of a session: JSON lines that every author and the trainer write alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from workers.protocol.codec import Json


class Role(enum.StrEnum):
    SYSTEM = "system"
    USER = "user"
    AUTHOR = "author"
    TOOL = "tool"


@dataclass(frozen=True)
class ToolCall:
    """The author asks for a tool."""

    id: str
    tool: str
    arguments: dict[str, Json]


@dataclass(frozen=True)
class ToolResult:
    """What a tool said. `text` is the observation; `data` holds the same as data, such as a verdict."""

    id: str
    ok: bool
    text: str
    data: Json = None


@dataclass(frozen=True)
class Usage:
    """What a reply cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True)
class Tokens:
    """Sampled tokens, only where the author is a model trained here."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]
    """1 where the token was sampled, 0 where it was given."""


@dataclass(frozen=True)
class TranscriptEntry:
    """One line."""

    turn: int
    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    snapshot: str = ""
    """Digest of the workspace after this entry."""
    usage: Usage = field(default_factory=Usage)
    tokens: Tokens | None = None
    version: int = 1
