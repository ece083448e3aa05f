"""Questions to a transcript."""

from __future__ import annotations

from collections.abc import Sequence

from workers.protocol.transcript import TranscriptEntry


def next_turn(transcript: Sequence[TranscriptEntry]) -> int:
    """The number of the turn that comes after a transcript; the first is 1."""
    return 1 + max((entry.turn for entry in transcript), default=0)


def bad_replies(transcript: Sequence[TranscriptEntry]) -> int:
    """How many replies at the end of a transcript had no tool call that worked."""
    worked = {e.turn for e in transcript if any(result.ok for result in e.results)}
    return next_turn(transcript) - 1 - max(worked, default=0)


def used_shell(transcript: Sequence[TranscriptEntry]) -> bool:
    """Whether the author has run commands, so that a new shell is not what it left."""
    return any(call.tool == "bash" for entry in transcript for call in entry.tool_calls)
