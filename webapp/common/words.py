"""How each state is shown: a word, a tone for its colour and an icon. Never a colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from workers.protocol.codec import Json, to_data


@dataclass(frozen=True)
class Word:
    """One state for people."""

    word: str
    tone: str
    """`good`, `bad`, `warn`, `live` or `plain`: picks the colour in static/css/parts.css."""
    icon: str
    """Name of a symbol in static/img/icons.svg."""


SESSION = {
    "queued": Word("Queued", "plain", "clock"),
    "running": Word("Running", "live", "busy"),
    "pausing": Word("Pausing", "warn", "pause"),
    "paused": Word("Paused", "warn", "pause"),
    "stopping": Word("Stopping", "warn", "stop"),
    "stopped": Word("Stopped", "plain", "stop"),
    "finished": Word("Finished", "good", "check"),
    "failed": Word("Failed", "bad", "cross"),
    "crashed": Word("Crashed", "bad", "alert"),
}

PROBLEM = {
    "checking": Word("Checking", "live", "busy"),
    "ready": Word("Ready", "good", "check"),
    "refused": Word("Refused", "bad", "cross"),
}

VERDICT = {
    "pending": Word("Waiting", "plain", "clock"),
    "building": Word("Building", "live", "busy"),
    "measuring": Word("Measuring", "live", "busy"),
    "passed": Word("Passed", "good", "check"),
    "incorrect": Word("Incorrect", "bad", "cross"),
    "compile_error": Word("Does not compile", "bad", "cross"),
    "link_error": Word("Does not link", "bad", "cross"),
    "load_error": Word("Does not load", "bad", "cross"),
    "runtime_error": Word("Fails when run", "bad", "cross"),
    "timeout": Word("Timed out", "bad", "clock"),
    "out_of_memory": Word("Out of memory", "bad", "cross"),
    "rejected": Word("Rejected", "bad", "shield"),
    "unmeasured": Word("Correct, not timed", "warn", "clock"),
    "infrastructure": Word("Machine trouble", "warn", "alert"),
}

TOOL = {
    "running": Word("Running", "live", "busy"),
    "ok": Word("Done", "good", "check"),
    "failed": Word("Failed", "bad", "cross"),
    "interrupted": Word("Interrupted", "warn", "stop"),
}

_FAMILIES = {"session": SESSION, "problem": PROBLEM, "verdict": VERDICT, "tool": TOOL}


def word_for(family: str, state: str) -> Word:
    """The word of a state; a state that is new to this page is shown by its own name."""
    known = _FAMILIES[family].get(state)
    return known or Word(state.replace("_", " ").capitalize(), "plain", "minus")


def words_as_data() -> Json:
    """All words for the live page's script, so that server and script say the same."""
    return to_data({family: dict(words) for family, words in _FAMILIES.items()})
