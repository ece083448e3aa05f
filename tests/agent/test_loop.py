"""The loop keeps its promises whoever writes and whoever judges."""

from __future__ import annotations

import json

from agent.author import Ending, Reply, Task
from agent.config import Limits
from agent.control import Uncontrolled
from agent.errors import Cancelled
from agent.history import next_turn
from agent.loop import run
from agent.session import SessionInput, SessionState
from workers.protocol.codec import to_json
from workers.protocol.problem import Stage
from workers.protocol.transcript import Role, ToolCall
from workers.protocol.verdict import Status

PROBLEM = {"model.py": b"class Model: ...\n", "problem.toml": b"threads = 1\n"}
DONE = Reply("That is all.", ending=Ending.DONE)


class Playwright:
    """An author that says given replies in order; a pure function of the transcript."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = replies

    async def reply(self, task: Task, transcript, delta) -> Reply:
        reply = self.replies[min(next_turn(transcript), len(self.replies)) - 1]
        await delta(reply.text)
        return reply


def writes(text: str) -> ToolCall:
    return ToolCall("w", "write", {"path": "model_new.py", "content": text})


def call(tool: str, **arguments) -> ToolCall:
    return ToolCall(tool, tool, arguments)


def by_number(make_verdict):
    """Grades a workspace by the number that its model_new.py holds."""
    return lambda files: make_verdict(speedup=float(files["model_new.py"]))


async def test_the_best_of_all_turns_wins_and_not_the_last(notebook, make_examiner, make_verdict):
    author = Playwright(
        Reply("a", (writes("1.5"), call("profile"))),
        Reply("b", (writes("2.5"), call("profile"))),
        Reply("c", (writes("0.5"), call("profile"))),
        DONE,
    )
    examiner = make_examiner(by_number(make_verdict))
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FINISHED
    assert result.reason == "That is all."
    assert result.best is not None
    assert (result.best.turn, result.best.speedup.median) == (2, 2.5)
    assert result.best.snapshot == notebook.turns[1].snapshot
    assert [body["speedup"] for kind, body in notebook.events if kind == "best"] == [1.5, 2.5]


async def test_events_come_in_the_order_in_which_things_happen(
    notebook, make_examiner, make_verdict
):
    author = Playwright(Reply("a", (writes("2"), call("profile"))), DONE)
    examiner = make_examiner(by_number(make_verdict))
    await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert notebook.kinds()[:9] == [
        "turn.started",
        "message",
        "tool.started",
        "tool.finished",
        "tool.started",
        "snapshot",
        "evaluation",
        "best",
        "tool.finished",
    ]
    assert all(body["turn"] in (1, 2) for _, body in notebook.events)
    assert examiner.asked == [(Stage.BUILD, Stage.VERIFY, Stage.TIME)]


async def test_a_session_without_a_passed_candidate_fails(notebook, make_examiner, make_verdict):
    author = Playwright(Reply("a", (writes("x"), call("verify"))), DONE)
    examiner = make_examiner(lambda files: make_verdict(Status.INCORRECT))
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FAILED
    assert result.best is None


async def test_giving_up_ends_the_session_with_the_authors_sentence(
    notebook, make_examiner, make_verdict
):
    author = Playwright(Reply("I cannot do convolutions.", ending=Ending.GAVE_UP))
    examiner = make_examiner(by_number(make_verdict))
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert (result.state, result.reason) == (SessionState.FAILED, "I cannot do convolutions.")


async def test_an_infrastructure_verdict_is_asked_for_once_more_and_then_ends_the_session(
    notebook, make_examiner, make_verdict
):
    author = Playwright(Reply("a", (writes("1"), call("profile"), call("glob"))), DONE)
    examiner = make_examiner(
        lambda files: make_verdict(Status.INFRASTRUCTURE, summary="The disk is full.")
    )
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert len(examiner.asked) == 2
    assert result.state is SessionState.FAILED
    assert "The disk is full." in result.reason
    # The unfinished turn is kept, with a result for every call.
    assert [r.ok for r in notebook.turns[-1].entries[-1].results] == [True, False, False]


async def test_one_infrastructure_verdict_goes_unnoticed(notebook, make_examiner, make_verdict):
    verdicts = [make_verdict(Status.INFRASTRUCTURE), make_verdict(speedup=2.0)]
    author = Playwright(Reply("a", (writes("1"), call("profile"))), DONE)
    examiner = make_examiner(lambda files: verdicts.pop(0))
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FINISHED
    assert result.best is not None


async def test_replies_that_do_nothing_end_the_session(notebook, make_examiner, make_verdict):
    author = Playwright(Reply("Hello."), Reply("x", (call("no_such_tool"),)), Reply("Hello again."))
    examiner = make_examiner(by_number(make_verdict))
    session = SessionInput(PROBLEM, limits=Limits(bad_replies=3))
    result = await run(session, author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FAILED
    assert "3 replies in a row did nothing" in result.reason
    assert len(notebook.turns) == 3
    assert notebook.turns[0].entries[-1].role is Role.USER


async def test_the_limit_of_turns_keeps_the_best(notebook, make_examiner, make_verdict):
    author = Playwright(Reply("a", (writes("1.25"), call("profile"))))
    examiner = make_examiner(by_number(make_verdict))
    session = SessionInput(PROBLEM, limits=Limits(turns=2))
    result = await run(session, author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FINISHED
    assert "All 2 turns are used up" in result.reason
    assert "1.25x" in result.reason
    assert len(notebook.turns) == 2


async def test_time_that_earlier_runs_used_counts(notebook, make_examiner, make_verdict):
    author = Playwright(DONE)
    session = SessionInput(PROBLEM, limits=Limits(wall_seconds=60), elapsed_seconds=61)
    examiner = make_examiner(by_number(make_verdict))
    result = await run(session, author, examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FAILED
    assert "60 s are used up" in result.reason
    assert notebook.turns == []


async def test_an_author_that_does_not_answer_ends_the_session(
    notebook, make_examiner, make_verdict
):
    import asyncio

    class Sleeper:
        async def reply(self, task, transcript, delta):
            await asyncio.sleep(60)

    session = SessionInput(PROBLEM, limits=Limits(reply_seconds=0.05))
    examiner = make_examiner(by_number(make_verdict))
    result = await run(session, Sleeper(), examiner, notebook, Uncontrolled())
    assert result.state is SessionState.FAILED
    assert "no reply within 0.05 s" in result.reason


async def test_stopping_takes_effect_at_the_next_tool_and_keeps_what_was_done(
    notebook, make_examiner, make_verdict
):
    class StopAt:
        """Stops at the n-th boundary."""

        def __init__(self, count: int) -> None:
            self.left = count

        async def boundary(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise Cancelled("Somebody pressed stop.")

    author = Playwright(Reply("a", (writes("1.5"), call("profile"), call("compile"))), DONE)
    examiner = make_examiner(by_number(make_verdict))
    # Boundaries: before the reply, before write, before profile, before compile.
    result = await run(SessionInput(PROBLEM), author, examiner, notebook, StopAt(4))
    assert (result.state, result.reason) == (SessionState.STOPPED, "Somebody pressed stop.")
    assert result.best is not None
    record = notebook.turns[-1]
    assert [r.ok for r in record.entries[-1].results] == [True, True, False]
    assert record.files == {"model_new.py": b"1.5"}


async def test_long_observations_lose_their_middle(notebook, make_examiner, make_verdict):
    text = "\n".join(f"line {i}" for i in range(5000))
    author = Playwright(Reply("a", (writes(text), call("read", path="model_new.py"))), DONE)
    session = SessionInput(PROBLEM, limits=Limits(observation_chars=1000))
    examiner = make_examiner(by_number(make_verdict))
    await run(session, author, examiner, notebook, Uncontrolled())
    seen = notebook.turns[0].entries[-1].results[1].text
    assert len(seen) < 1100
    assert "line 0" in seen
    assert "characters left out" in seen
    shown = next(b for kind, b in notebook.events if kind == "tool.started")["arguments"]
    assert len(shown["content"]) < 300


async def test_characters_that_no_database_takes_are_marked_in_what_an_author_says(
    notebook, make_examiner, make_verdict
):
    odd = "a\0b\ud800c"
    calls = (
        writes("1.5 # \0"),
        call("glob", pattern=odd),
        call("todo", items=[{"text": odd}]),
        call(odd),
    )
    author = Playwright(Reply(odd, calls), DONE)
    result = await run(
        SessionInput(PROBLEM),
        author,
        make_examiner(by_number(make_verdict)),
        notebook,
        Uncontrolled(),
    )
    assert result.state is SessionState.FAILED
    said = json.dumps([body for _, body in notebook.events], ensure_ascii=False)
    assert "a\ufffdb\ufffdc" in said
    for turn in notebook.turns:
        for entry in turn.entries:
            assert b"\\u0000" not in to_json(entry)
    said.encode()
