"""A session's events as lines of a terminal."""

from __future__ import annotations

import time

import pytest

from launch.narration import Narrator, ratio_text, shortened
from workers.protocol.events import EventKind

BODIES = {
    EventKind.SESSION_STATE: ({"state": "finished", "reason": "Done."}, "session finished: Done."),
    EventKind.TURN_STARTED: ({"turn": 3}, "turn 3"),
    EventKind.MESSAGE: (
        {"turn": 1, "role": "author", "text": "First line.\nSecond."},
        "author: First line.",
    ),
    EventKind.TOOL_FINISHED: (
        {"turn": 1, "call": "c", "tool": "write", "ok": False, "summary": "no", "duration_ms": 4.2},
        "write: refused or failed: no (4 ms)",
    ),
    EventKind.EVALUATION: (
        {"turn": 1, "status": "passed", "speedup": 2.0, "low": 1.9, "high": 2.1},
        "verdict passed, 2.00x eager (1.90 to 2.10)",
    ),
    EventKind.BEST: (
        {"turn": 2, "speedup": 2.5, "low": 2.4, "high": 2.6},
        "best so far: turn 2, 2.50x",
    ),
    EventKind.BASELINE: (
        {"status": "passed", "compile_over_eager": 1.5, "low": 1.4, "high": 1.6},
        "torch.compile gains 1.50x over eager",
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_each_stage_is_one_line(kind: EventKind):
    body, expected = BODIES[kind]
    lines = Narrator(time.monotonic()).tell({"kind": kind.value, "body": body})
    assert len(lines) == 1
    assert expected in lines[0]


@pytest.mark.parametrize(
    "kind", [kind for kind in EventKind if kind not in BODIES and kind is not EventKind.BASELINE]
)
def test_what_only_a_page_shows_is_left_out(kind: EventKind):
    assert Narrator(time.monotonic()).tell({"kind": kind.value, "body": {}}) == []


def test_a_kind_of_event_that_is_not_known_yet_breaks_nothing():
    assert Narrator(time.monotonic()).tell({"kind": "something.new", "body": {}}) == []


def test_the_first_passed_verdict_with_a_time_is_remembered():
    narrator = Narrator(time.monotonic() - 5)
    for status, speedup in (("incorrect", None), ("passed", None)):
        narrator.tell({"kind": "evaluation", "body": {"status": status, "speedup": speedup}})
    assert narrator.first_verdict_s is None
    body = {"status": "passed", "speedup": 2.0, "low": 1.9, "high": 2.1}
    narrator.tell({"kind": "evaluation", "body": body})
    first = narrator.first_verdict_s
    narrator.tell({"kind": "evaluation", "body": body})
    assert first is not None
    assert 5 <= first < 60
    assert narrator.first_verdict_s == first


def test_numbers_and_long_lines_fit_a_terminal():
    assert ratio_text({"median": 2, "low": 1.5, "high": 2.5}) == "2.00x (95 %: 1.50 to 2.50)"
    assert len(shortened("x" * 500)) == 110
