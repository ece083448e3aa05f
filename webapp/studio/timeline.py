"""Events of a session as the live page shows them: turns with their items, points of the plot.

The page is useful without a script, so the server draws the whole log so far; static/js/timeline.js
goes on from there with the same markup. Both follow workers/protocol/events.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from webapp.common.formats import interval, ratio
from webapp.common.words import SESSION, VERDICT, word_for
from webapp.studio.models import FINAL_STATES
from workers.protocol.codec import Json
from workers.protocol.events import Event, EventKind

PREVIEW_CHARS = 160
_TELLING_ARGUMENTS = ("command", "path", "pattern")
_SPEAKERS = {
    "author": "Author",
    "user": "Task",
    "person": "Person",
    "system": "Workshop",
    "tool": "Tool",
}


@dataclass
class Item:
    """One line or box of a turn; `part` names its template, templates/studio/_PART.html."""

    part: str
    seq: int | str = ""
    at: str = ""
    role: str = ""
    who: str = ""
    text: str = ""
    icon: str = "minus"
    call: str = ""
    name: str = ""
    preview: str = ""
    arguments: str = ""
    state: str = "running"
    took_seconds: float | None = None
    summary: str = ""
    evaluation: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def template(self) -> str:
        """Where its markup is."""
        return f"studio/_{self.part}.html"


@dataclass
class Turn:
    """One turn of the author."""

    number: int | str
    seq: int | str = ""
    at: str = ""
    items: list[Item] = field(default_factory=list)
    took_seconds: float | None = None
    is_best: bool = False
    part: str = "turn"


@dataclass
class Timeline:
    """All that the page shows of the log."""

    blocks: list[Turn | Item] = field(default_factory=list)
    """Turns, and lines between them that belong to no turn, in order."""
    points: list[dict[str, Json]] = field(default_factory=list)
    """One per judged snapshot that was to be timed or failed: what the plot shows."""
    best: dict[str, Json] | None = None
    baseline: dict[str, Json] | None = None
    snapshot: str = ""
    """Digest of the newest files."""
    changed: tuple[str, ...] = ()
    """Paths that are new in them."""
    last_seq: int = 0

    @property
    def newest_turn(self) -> int | str:
        """Number of the turn that began last; 0 before the first."""
        return next((b.number for b in reversed(self.blocks) if isinstance(b, Turn)), 0)

    def interrupt(self) -> None:
        """Whatever still runs will not be answered any more."""
        for block in self.blocks:
            for item in block.items if isinstance(block, Turn) else ():
                if item.part == "tool" and item.state == "running":
                    item.state = "interrupted"

    def turn(self, number: int, event: Event) -> Turn:
        """The turn of this number, begun if it is new."""
        for block in reversed(self.blocks):
            if isinstance(block, Turn) and block.number == number:
                return block
        turn = Turn(number=number, seq=event.seq, at=event.at)
        self.blocks.append(turn)
        return turn

    def put(self, event: Event, item: Item) -> None:
        """Place an item in its turn, or between turns where it belongs to none."""
        number = event.body.get("turn")
        item.seq, item.at = event.seq, event.at
        if isinstance(number, int) and number > 0:
            self.turn(number, event).items.append(item)
        else:
            self.blocks.append(item)


def timeline_of(events: Iterable[Event]) -> Timeline:
    """Build what the page shows from a log, in the order of its sequence numbers."""
    timeline = Timeline()
    for event in events:
        _DRAW[event.kind](timeline, event)
        timeline.last_seq = event.seq
    return timeline


def blank_parts() -> list[Turn | Item]:
    """One empty piece of each kind: the script copies these instead of knowing the markup."""
    names = ("message", "tool", "outcome", "note")
    return [Turn(number="", items=[]), *(Item(part=name, state="running") for name in names)]


def changed_paths(event: Event) -> tuple[str, ...]:
    """The paths that a `snapshot` event names."""
    files = event.body.get("files")
    return tuple(str(path) for path in files) if isinstance(files, list) else ()


def is_plotted(body: dict[str, Json]) -> bool:
    """A measured candidate, or one that failed on the way; a correct untimed one says nothing here."""
    return body.get("speedup") is not None or body.get("status") not in ("passed", "unmeasured")


def _message(timeline: Timeline, event: Event) -> None:
    role = _text(event, "role")
    if role == "system":
        # The workshop speaks when the process that ran the session is gone, its tools with it.
        timeline.interrupt()
    item = Item("message", role=role, who=_SPEAKERS.get(role, role), text=_text(event, "text"))
    timeline.put(event, item)


def _turn_started(timeline: Timeline, event: Event) -> None:
    timeline.interrupt()  # a turn that was broken off begins again
    timeline.turn(_number(event), event)


def _turn_finished(timeline: Timeline, event: Event) -> None:
    turn = timeline.turn(_number(event), event)
    turn.took_seconds = _seconds_between(turn.at, event.at)
    text = _text(event, "text")
    if text and not any(item.part == "message" and item.role == "author" for item in turn.items):
        turn.items.insert(0, Item("message", role="author", text=text, seq=event.seq, at=event.at))


def _tool_started(timeline: Timeline, event: Event) -> None:
    given = event.body.get("arguments")
    item = Item(
        "tool",
        call=_text(event, "call"),
        name=_text(event, "tool"),
        preview=_preview(given),
        arguments=_readable(given),
    )
    timeline.put(event, item)


def _tool_finished(timeline: Timeline, event: Event) -> None:
    turn = timeline.turn(_number(event), event)
    call = _text(event, "call")
    calls = [item for item in turn.items if item.part == "tool" and item.call == call]
    if not calls:
        calls = [Item("tool", call=call, name=_text(event, "tool"), seq=event.seq, at=event.at)]
        turn.items += calls
    took = event.body.get("duration_ms")
    calls[-1].state = "ok" if event.body.get("ok") else "failed"
    calls[-1].took_seconds = took / 1000 if isinstance(took, (int, float)) else None
    calls[-1].summary = _text(event, "summary")


def _snapshot(timeline: Timeline, event: Event) -> None:
    timeline.snapshot = _text(event, "digest")
    timeline.changed = changed_paths(event)
    names = ", ".join(timeline.changed)
    text = f"Changed {names}" if names else "Files unchanged"
    timeline.put(event, Item("note", icon="file", text=text))


def _evaluation(timeline: Timeline, event: Event) -> None:
    body = event.body
    item = Item("outcome", state=_text(event, "status"), text=_text(event, "summary"))
    item.evaluation = _text(event, "evaluation")
    item.speedup, item.low, item.high = (_real(body, key) for key in ("speedup", "low", "high"))
    timeline.put(event, item)
    if is_plotted(body):
        kept = ("turn", "speedup", "low", "high", "status", "summary", "evaluation")
        timeline.points.append({key: body.get(key) for key in kept})


def _best(timeline: Timeline, event: Event) -> None:
    for block in timeline.blocks:
        if isinstance(block, Turn):
            block.is_best = False
    timeline.turn(_number(event), event).is_best = True
    timeline.best = event.body


def _baseline(timeline: Timeline, event: Event) -> None:
    gain, low, high = (_real(event.body, key) for key in ("compile_over_eager", "low", "high"))
    if gain and low and high:
        timeline.baseline = {"median": gain, "low": low, "high": high}
        text = f"torch.compile alone reaches {ratio(gain)} ({interval(low, high)}) against eager"
    else:
        status = VERDICT.get(_text(event, "status"))
        text = (
            f"torch.compile was not measured: {status.word if status else _text(event, 'status')}"
        )
    timeline.blocks.append(Item("note", icon="clock", text=text, seq=event.seq, at=event.at))


def _state(timeline: Timeline, event: Event) -> None:
    state, reason = _text(event, "state"), _text(event, "reason")
    word = SESSION.get(state) or word_for("session", state)
    text = f"{word.word}: {reason}" if reason else word.word
    timeline.put(event, Item("note", icon=word.icon, text=text))
    if state in FINAL_STATES:
        timeline.interrupt()


_DRAW: dict[EventKind, Callable[[Timeline, Event], None]] = {
    EventKind.SESSION_STATE: _state,
    EventKind.TURN_STARTED: _turn_started,
    EventKind.TURN_FINISHED: _turn_finished,
    EventKind.MESSAGE: _message,
    EventKind.TOOL_STARTED: _tool_started,
    EventKind.TOOL_FINISHED: _tool_finished,
    EventKind.SNAPSHOT: _snapshot,
    EventKind.EVALUATION: _evaluation,
    EventKind.BEST: _best,
    EventKind.BASELINE: _baseline,
}


def _text(event: Event, key: str) -> str:
    value = event.body.get(key)
    return "" if value is None else str(value)


def _number(event: Event) -> int:
    value = event.body.get("turn")
    return value if isinstance(value, int) else 0


def _real(body: dict[str, Json], key: str) -> float | None:
    value = body.get(key)
    return float(value) if isinstance(value, (int, float)) else None


def _seconds_between(start: str, end: str) -> float | None:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except ValueError:
        return None


def _readable(given: Json) -> str:
    """All arguments as text: one line each, and text of several lines as it is."""
    if not isinstance(given, dict):
        return given if isinstance(given, str) else ""
    lines = []
    for name, value in given.items():
        text = (
            value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
        lines.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(lines) or "no arguments"


def _preview(given: Json) -> str:
    """The one argument that says most, on one line."""
    if isinstance(given, str):
        return given[:PREVIEW_CHARS]
    values = given if isinstance(given, dict) else {}
    named = [values[key] for key in _TELLING_ARGUMENTS if values.get(key) is not None]
    first = next(iter(named or values.values()), "")
    text = first if isinstance(first, str) else json.dumps(first, separators=(",", ":"))
    return " ".join(text.split())[:PREVIEW_CHARS]
