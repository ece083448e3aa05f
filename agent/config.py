"""Limits of a session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a session may use up. All of them are checked at tool boundaries."""

    turns: int = 200
    """Replies of the author, counted from the session's first one also after a resumption."""
    wall_seconds: float = 3600.0
    """Time since the session began, `SessionInput.elapsed_seconds` included."""
    bad_replies: int = 3
    """Replies in a row without one tool call that worked; the session ends at this number."""
    reply_seconds: float = 600.0
    """How long the author may think about one reply."""
    observation_chars: int = 12_000
    """Longest text of one observation; the middle is cut out of longer ones."""

    def __post_init__(self) -> None:
        for name in ("turns", "wall_seconds", "bad_replies", "reply_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} must be positive")
        if self.observation_chars < 200:
            raise ValueError("limit observation_chars must be at least 200")
