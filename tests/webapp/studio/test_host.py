"""Sessions run to their end, whatever happens to the process that runs them."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import asynccontextmanager

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from agent.scripted import ScriptedAuthor
from tests.webapp.studio.conftest import Workers, judged_turn, write_turn
from webapp.evaluations.attempts import WITHDRAWN
from webapp.evaluations.models import Evaluation, Job
from webapp.events.queries import after
from webapp.studio import leases
from webapp.studio.host import SessionHost
from webapp.studio.models import Session, SessionState
from webapp.studio.queries import best_files, transcript_of, turns_of
from webapp.studio.services import pause_session, resume_session, stop_session
from workers.protocol.events import EventKind


@asynccontextmanager
async def hosting(authors, *, workers: bool = True):
    """A session host at work, with workers that answer unless told otherwise."""
    host = SessionHost(authors=authors)
    ending = asyncio.Event()
    tasks = [asyncio.create_task(host.run(ending))]
    serving = asyncio.create_task(Workers().serve()) if workers else None
    try:
        yield host
    finally:
        ending.set()
        await asyncio.wait_for(tasks[0], 10)
        if serving is not None:
            serving.cancel()


async def until(session: Session, *states: str, seconds: float = 15) -> Session:
    async with asyncio.timeout(seconds):
        while True:
            await sync_to_async(session.refresh_from_db)()
            if session.state in states:
                return session
            await asyncio.sleep(0.05)


def kinds(session: Session) -> list[str]:
    return [event.kind.value for event in after(session.pk, 0)]


def states(session: Session) -> list[str]:
    log = after(session.pk, 0)
    return [str(e.body["state"]) for e in log if e.kind is EventKind.SESSION_STATE]


async def test_a_session_runs_to_its_end_and_keeps_everything(session, authors):
    async with hosting(authors):
        await until(session, "finished")
    assert await sync_to_async(states)(session) == ["queued", "running", "finished"]
    turns = await sync_to_async(lambda: list(turns_of(session)))()
    assert [turn.number for turn in turns] == [1, 2, 3, 4]
    assert session.turn_count == 4
    assert session.best_turn == 3
    files = await sync_to_async(lambda: best_files(Session.objects.get(pk=session.pk)))()
    assert files == {"model_new.py": b"class ModelNew: turn = 3\n"}
    log = await sync_to_async(after)(session.pk, 0)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    found = {event.kind for event in log}
    assert found >= {
        EventKind.TURN_STARTED,
        EventKind.MESSAGE,
        EventKind.TOOL_STARTED,
        EventKind.TOOL_FINISHED,
        EventKind.SNAPSHOT,
        EventKind.EVALUATION,
        EventKind.BEST,
        EventKind.TURN_FINISHED,
    }
    assert log[-1].body["state"] == "finished"


async def test_another_host_goes_on_behind_the_last_finished_turn(session, authors):
    """The first host dies while turn 2 waits for the judge: nothing is released, its lease runs out."""
    host = SessionHost(authors=authors)
    await host._take()
    await until_turns(session, 1)
    async with asyncio.timeout(10):
        while not await sync_to_async(Evaluation.objects.exists)():
            await asyncio.sleep(0.02)
    for task in host._tasks.values():
        task.cancel()
    await asyncio.wait(host._tasks.values())
    await sync_to_async(expire)(session)

    async with hosting(authors):
        await until(session, "finished")
    log = await sync_to_async(after)(session.pk, 0)
    said = [
        e.body["text"] for e in log if e.kind is EventKind.MESSAGE and e.body["role"] == "system"
    ]
    assert said == [
        "The process that ran this session is gone. Another one goes on behind turn 1, with a new shell."
    ]
    finished = [e.body["turn"] for e in log if e.kind is EventKind.TURN_FINISHED]
    assert finished == [1, 2, 3, 4]
    entries = await sync_to_async(transcript_of)(session)
    assert [e.turn for e in entries if e.role.value == "author"] == [1, 2, 3, 4]
    assert session.fence == 2
    # Turn 2 was written as before, so the answer to its question is the one that was asked for then.
    evaluations = await sync_to_async(lambda: list(Evaluation.objects.order_by("created_at")))()
    assert [evaluation.state for evaluation in evaluations] == ["done", "done"]
    told = [e.body["evaluation"] for e in log if e.kind is EventKind.EVALUATION]
    assert told == [str(evaluation.pk) for evaluation in evaluations]


async def test_an_answer_that_came_while_no_host_was_there_is_told(session, authors):
    async with hosting(authors, workers=False):
        await until_turns(session, 1)
        async with asyncio.timeout(10):
            while not await sync_to_async(Evaluation.objects.exists)():
                await asyncio.sleep(0.02)
    workers = Workers()
    while not await sync_to_async(Evaluation.objects.filter(state="done").exists)():
        await sync_to_async(workers.answer_all)()
    async with hosting(authors):
        await until(session, "finished")
    log = await sync_to_async(after)(session.pk, 0)
    told = [e.body["evaluation"] for e in log if e.kind is EventKind.EVALUATION]
    kept = await sync_to_async(
        lambda: [str(e.pk) for e in Evaluation.objects.order_by("created_at")]
    )()
    assert told == kept


async def test_a_question_that_the_next_run_does_not_ask_is_withdrawn(session, authors):
    async with hosting(authors, workers=False):
        await until_turns(session, 1)
        async with asyncio.timeout(10):
            while not await sync_to_async(Evaluation.objects.exists)():
                await asyncio.sleep(0.02)
    changed = dataclasses.replace(judged_turn(7), turn=2)
    another = ScriptedAuthor([write_turn(1), changed, judged_turn(3)])
    async with hosting(lambda _name: another, workers=False):
        async with asyncio.timeout(10):
            while await sync_to_async(Evaluation.objects.count)() < 2:
                await asyncio.sleep(0.02)
    first, second = await sync_to_async(lambda: list(Evaluation.objects.order_by("created_at")))()
    assert (first.state, first.summary) == ("lost", WITHDRAWN)
    assert second.state == "pending"
    assert EventKind.EVALUATION.value not in await sync_to_async(kinds)(session)


async def until_turns(session: Session, count: int) -> None:
    async with asyncio.timeout(10):
        while session.turn_count < count:
            await sync_to_async(session.refresh_from_db)()
            await asyncio.sleep(0.02)


def expire(session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(lease_until=timezone.now())


async def test_a_host_that_ends_gives_its_sessions_back_at_once(session, authors):
    async with hosting(authors, workers=False):
        await until_turns(session, 1)
    await sync_to_async(session.refresh_from_db)()
    assert (session.state, session.host) == ("running", "")
    assert session.lease_until <= timezone.now()
    async with hosting(authors):
        await until(session, "finished")


async def test_a_host_that_lost_its_lease_writes_nothing_more(session, authors):
    async with hosting(authors, workers=False):
        await until_turns(session, 1)
        await sync_to_async(expire)(session)
        taken = await sync_to_async(leases.claim)("another host")
        assert taken.pk == session.pk
        before = await sync_to_async(kinds)(session)
        serving = asyncio.create_task(Workers().serve())
        await asyncio.sleep(2.5)
        serving.cancel()
        assert await sync_to_async(kinds)(session) == before


async def test_a_stop_is_requested_acknowledged_and_final(session, authors, people):
    async with hosting(authors, workers=False):
        await until_turns(session, 1)
        await sync_to_async(stop_session)(people.colleague, session)
        assert session.state == SessionState.STOPPING
        await until(session, "stopped", seconds=8)
    assert session.reason == "At colleague's request."
    assert await sync_to_async(open_jobs)() == 0
    assert await sync_to_async(states)(session) == ["queued", "running", "stopping", "stopped"]


async def test_a_queued_session_stops_at_once(session, people):
    await sync_to_async(stop_session)(people.owner, session)
    assert session.state == SessionState.STOPPED


async def test_a_pause_holds_at_the_next_boundary_until_it_is_resumed(session, people):
    slow = ScriptedAuthor([write_turn(1), judged_turn(2), write_turn(3)])
    async with hosting(lambda _name: slow, workers=False):
        await until_turns(session, 1)
        await sync_to_async(pause_session)(people.owner, session)
        serving = asyncio.create_task(Workers().serve())
        await until(session, "paused")
        count = session.turn_count
        await asyncio.sleep(1)
        await sync_to_async(session.refresh_from_db)()
        assert session.turn_count == count
        await sync_to_async(resume_session)(people.owner, session)
        await until(session, "finished")
        serving.cancel()
    expected = ["queued", "running", "pausing", "paused", "running", "finished"]
    assert await sync_to_async(states)(session) == expected


def open_jobs() -> int:
    return Job.objects.filter(state__in=("queued", "running")).count()


class BrokenAuthor:
    async def reply(self, task, transcript, delta):
        raise RuntimeError("a bug of ours")


async def test_a_bug_of_ours_is_tried_again_and_ends_as_crashed(session, monkeypatch):
    monkeypatch.setattr("webapp.studio.running.RETRY", leases.timedelta(0))
    async with hosting(lambda _name: BrokenAuthor()):
        await until(session, "crashed")
    assert session.reason == "It failed on our side 4 times in turn 1."


async def test_several_hosts_run_a_session_once(session, authors):
    async with hosting(authors), hosting(authors, workers=False):
        await until(session, "finished")
    log = await sync_to_async(after)(session.pk, 0)
    assert [e.body["turn"] for e in log if e.kind is EventKind.TURN_STARTED] == [1, 2, 3, 4]
    assert session.fence == 1


@pytest.mark.parametrize("count", [3])
async def test_a_host_runs_many_at_once(people, problem, session, authors, count):
    more = [await sync_to_async(start_another)(people, problem) for _ in range(count)]
    async with hosting(authors):
        for one in (session, *more):
            await until(one, "finished")


def start_another(people, problem) -> Session:
    from webapp.studio.services import create_session

    return create_session(people.owner, problem)
