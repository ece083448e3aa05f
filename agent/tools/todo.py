"""The author's list of things to do. It lives in the transcript: the tool only checks and repeats it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import Refusal
from agent.tools.base import Bench, Observation, Tool

_MARKS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


@dataclass(frozen=True)
class TodoItem:
    """One thing to do."""

    text: str
    state: str = "open"
    """`open`, `doing` or `done`."""


@dataclass(frozen=True)
class TodoForm:
    """Arguments of `todo`."""

    items: tuple[TodoItem, ...]


class Todo(Tool[TodoForm]):
    """Shows the list back, so that it stays in sight."""

    name = "todo"
    purpose = "Write down the whole list of things to do; each has a text and a state."
    form = TodoForm

    async def run(self, bench: Bench, arguments: TodoForm) -> Observation:
        """The list as text; raises `Refusal` for an unknown state."""
        for item in arguments.items:
            if item.state not in _MARKS:
                raise Refusal(f"state {item.state[:40]!r} is none of {', '.join(_MARKS)}")
        text = "\n".join(f"{_MARKS[item.state]} {item.text}" for item in arguments.items)
        done = sum(item.state == "done" for item in arguments.items)
        return Observation(text or "(empty)", f"{done} of {len(arguments.items)} done")
