"""The author that repeats a recorded session."""

from __future__ import annotations

from collections.abc import Sequence

from agent.author import Delta, Ending, Reply, Task
from agent.history import next_turn
from workers.protocol.transcript import Role, TranscriptEntry


class ScriptedAuthor:
    """Says again what the author of a recorded transcript said, turn by turn, then ends."""

    def __init__(self, recording: Sequence[TranscriptEntry]) -> None:
        self._replies = {e.turn: e for e in recording if e.role is Role.AUTHOR}

    async def reply(self, task: Task, transcript: Sequence[TranscriptEntry], delta: Delta) -> Reply:
        turn = next_turn(transcript)
        entry = self._replies.get(turn)
        if entry is None:
            return Reply(text="The recording ends here.", ending=Ending.DONE)
        await delta(entry.text)
        return Reply(text=entry.text, tool_calls=entry.tool_calls)
