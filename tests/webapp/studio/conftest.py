"""Sessions, and an author whose turns are written down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from asgiref.sync import sync_to_async

from agent.scripted import ScriptedAuthor
from tests.webapp.verdicts import BUILT, answer, fresh, verdict
from webapp.evaluations.models import Job
from webapp.evaluations.recording import record_answer
from webapp.studio.models import Session
from webapp.studio.services import create_session
from workers.protocol.transcript import Role, ToolCall, TranscriptEntry
from workers.protocol.verdict import Ratio


def write_turn(number: int, *more: ToolCall) -> TranscriptEntry:
    """A turn that writes model_new.py anew."""
    content = f"class ModelNew: turn = {number}\n"
    call = ToolCall(f"w{number}", "write", {"path": "model_new.py", "content": content})
    return TranscriptEntry(number, Role.AUTHOR, f"This is turn {number}.", (call, *more))


def judged_turn(number: int) -> TranscriptEntry:
    """A turn that writes and has its work judged and timed."""
    return write_turn(number, ToolCall(f"p{number}", "profile", {}))


@pytest.fixture
def session(people, problem) -> Session:
    return create_session(people.owner, problem)


@pytest.fixture
def authors() -> Callable[[str], ScriptedAuthor]:
    """Three turns; the second and the third are judged."""
    return lambda _name: ScriptedAuthor([write_turn(1), judged_turn(2), judged_turn(3)])


class Workers:
    """Answers every open job as builder and device worker would, with rising speed-ups."""

    def __init__(self) -> None:
        self.speedup = 1.0

    async def serve(self) -> None:
        while True:
            await sync_to_async(self.answer_all)()
            await asyncio.sleep(0.02)

    def answer_all(self) -> None:
        for job in Job.objects.filter(state__in=("queued", "running")):
            job = fresh(job)
            if job.kind == "build":
                record_answer(answer(job, BUILT))
            else:
                self.speedup += 1
                ratio = Ratio(self.speedup, self.speedup * 0.95, self.speedup * 1.05, 9)
                record_answer(answer(job, verdict(job.evaluation.request, speedup=ratio)))
