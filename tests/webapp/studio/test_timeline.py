"""What the timeline makes of a log that broke off in the middle of a turn."""

from __future__ import annotations

import pytest

from webapp.studio.timeline import Timeline, Turn, timeline_of
from workers.protocol.events import Event, EventKind

CALL = {"turn": 2, "call": "c1", "tool": "profile", "arguments": {}}


def timeline(*told: tuple[EventKind, dict[str, object]]) -> Timeline:
    events = [
        Event("s", seq, f"2026-11-30T12:00:{seq:02}.000Z", kind, dict(body))
        for seq, (kind, body) in enumerate(told, start=1)
    ]
    return timeline_of(events)


def tool_state(shown: Timeline) -> str:
    turns = [block for block in shown.blocks if isinstance(block, Turn)]
    return turns[-1].items[-1].state


@pytest.mark.parametrize("state", ["stopped", "crashed", "failed", "finished"])
def test_a_tool_that_was_broken_off_does_not_run_for_ever(state: str) -> None:
    shown = timeline(
        (EventKind.TURN_STARTED, {"turn": 2}),
        (EventKind.TOOL_STARTED, CALL),
        (EventKind.SESSION_STATE, {"state": state, "reason": ""}),
    )
    assert tool_state(shown) == "interrupted"


def test_a_tool_runs_while_its_session_is_stopping() -> None:
    shown = timeline(
        (EventKind.TURN_STARTED, {"turn": 2}),
        (EventKind.TOOL_STARTED, CALL),
        (EventKind.SESSION_STATE, {"state": "stopping", "reason": ""}),
    )
    assert tool_state(shown) == "running"


@pytest.mark.parametrize(
    "sign",
    [
        (EventKind.MESSAGE, {"turn": 2, "role": "system", "text": "Another one goes on."}),
        (EventKind.TURN_STARTED, {"turn": 2}),
    ],
)
def test_a_tool_of_a_process_that_is_gone_does_not_run_on(sign: object) -> None:
    told = [(EventKind.TURN_STARTED, {"turn": 2}), (EventKind.TOOL_STARTED, CALL), sign]
    shown = timeline(*told)  # type: ignore[arg-type]
    turns = [block for block in shown.blocks if isinstance(block, Turn)]
    assert [item.state for item in turns[-1].items if item.part == "tool"] == ["interrupted"]
    again = timeline(*told, (EventKind.TOOL_STARTED, CALL))  # type: ignore[arg-type]
    assert tool_state(again) == "running"


def test_the_turn_is_the_one_that_began_last() -> None:
    assert timeline().newest_turn == 0
    shown = timeline(
        (EventKind.TURN_STARTED, {"turn": 1}),
        (EventKind.TURN_FINISHED, {"turn": 1, "snapshot": "", "text": ""}),
        (EventKind.TURN_STARTED, {"turn": 2}),
    )
    assert shown.newest_turn == 2
