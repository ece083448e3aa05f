"""On the site, too, an author may work in a shell; its requests become the session's own events and verdicts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from agent.scripted import ScriptedAuthor
from tests.webapp.studio.test_host import hosting, until
from webapp.events.queries import after
from webapp.studio.models import Session
from webapp.studio.queries import best_files, transcript_of
from webapp.studio.services import stop_session
from workers.protocol.events import EventKind
from workers.protocol.transcript import Role, ToolCall, TranscriptEntry
from workers.sandbox import choose


@pytest.fixture(autouse=True)
def sandbox():
    if problem := choose("auto").problem:
        pytest.skip(problem)


def bash_turn(number: int, command: str) -> TranscriptEntry:
    call = ToolCall(f"b{number}", "bash", {"command": command, "seconds": 60.0})
    return TranscriptEntry(number, Role.AUTHOR, f"This is turn {number}.", (call,))


def running(words: str) -> bool:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        except OSError:
            continue
    return words in found


async def test_a_session_of_commands_finishes_with_a_best_verdict(session):
    script = [
        bash_turn(1, "echo 'class ModelNew: turn = 1' >model_new.py; bash utils/compile.sh"),
        bash_turn(2, "python3 -m utils.profiling; echo code $?"),
    ]
    async with hosting(lambda _name: ScriptedAuthor(script)):
        await until(session, "finished", seconds=40)
    assert session.best_turn == 2
    files = await sync_to_async(lambda: best_files(Session.objects.get(pk=session.pk)))()
    assert files == {"model_new.py": b"class ModelNew: turn = 1\n"}
    log = await sync_to_async(after)(session.pk, 0)
    judged = [event.body for event in log if event.kind is EventKind.EVALUATION]
    assert [(body["turn"], body["stage"]) for body in judged] == [(1, "build"), (2, "time")]
    assert all(body["evaluation"] for body in judged)
    told = [event.body for event in log if event.kind is EventKind.TOOL_FINISHED]
    assert [body["tool"] for body in told] == ["bash", "bash"]
    entries = await sync_to_async(transcript_of)(session)
    assert "code 0" in [r.text for e in entries for r in e.results][1]


async def test_a_stop_kills_a_command_that_would_run_for_long(session, people):
    script = [bash_turn(1, "sleep 64.5 & sleep 65.5")]
    async with hosting(lambda _name: ScriptedAuthor(script), workers=False):
        async with asyncio.timeout(30):
            while not running("sleep 65.5"):
                await asyncio.sleep(0.05)
        began = time.monotonic()
        await sync_to_async(stop_session)(people.owner, session)
        await until(session, "stopped", seconds=20)
        assert time.monotonic() - began < 15
        assert not running("sleep 64.5")
        assert not running("sleep 65.5")
