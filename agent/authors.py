"""Authors by name."""

from __future__ import annotations

from collections.abc import Sequence

from agent.author import Author
from agent.codegen.author import CodegenAuthor
from agent.errors import UnknownAuthor
from agent.scripted import ScriptedAuthor
from workers.protocol.transcript import TranscriptEntry

AUTHOR_NAMES = ("codegen", "scripted")


def make_author(name: str, recording: Sequence[TranscriptEntry] = ()) -> Author:
    """The author of this name; `scripted` repeats the recording. Raises `UnknownAuthor`."""
    if name == "codegen":
        return CodegenAuthor()
    if name == "scripted":
        return ScriptedAuthor(recording)
    raise UnknownAuthor(f"there is no author {name!r}; use one of {', '.join(AUTHOR_NAMES)}")
