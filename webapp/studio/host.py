"""The session host: one asyncio process that runs many sessions, each under a lease.

It looks into the database every second and whenever the bell rings; the bell is a convenience. On
SIGTERM it gives its sessions back, so that the next host goes on with them at once.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from uuid import UUID

from django.db import DatabaseError

from agent.authors import make_author
from webapp.common.artifacts import alive_folder
from webapp.common.database_thread import in_thread
from webapp.events.bells import WORK_GROUP
from webapp.events.listening import Bell
from webapp.studio.leases import claim, overdue_stops, release, renew
from webapp.studio.running import Authors, run_session, stop_overdue
from webapp.studio.verdict_watch import VerdictWatch
from workers.presence import Presence, name_of_this_process

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
STOP_PATIENCE = timedelta(seconds=3)
"""How long a stop may wait for the next tool boundary before the session's task is cancelled."""

GOODBYE_SECONDS = 5.0


class SessionHost:
    """Claims sessions, runs them, renews their leases."""

    def __init__(self, capacity: int = 8, authors: Authors = make_author) -> None:
        self.name = name_of_this_process()
        self.capacity = capacity
        self.authors = authors
        self.watch = VerdictWatch()
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._fences: dict[UUID, int] = {}

    async def run(self, ending: asyncio.Event) -> None:
        """Host sessions until `ending` is set; then give all back."""
        presence = Presence(alive_folder(), self.name)
        bell = Bell(WORK_GROUP)
        listening = asyncio.create_task(bell.listen())
        try:
            while not ending.is_set():
                await self._look()
                await _wait_for_either(ending, bell)
        finally:
            listening.cancel()
            await self._give_all_back()
            presence.leave()

    async def _look(self) -> None:
        """Forget what ended, keep what is held, take what waits."""
        self._forget_finished()
        try:
            for session_id in await in_thread(renew, self.name, self._fences):
                logger.warning("session %s has gone to another host", session_id)
                self._tasks[session_id].cancel()
            overdue = await in_thread(overdue_stops, self._fences, STOP_PATIENCE)
            for session_id in overdue:
                await self._cut_short(session_id)
            await self._take()
        except DatabaseError:
            logger.exception("the database does not answer")

    async def _take(self) -> None:
        while len(self._tasks) < self.capacity:
            session = await in_thread(claim, self.name)
            if session is None:
                return
            self._fences[session.pk] = session.fence
            self._tasks[session.pk] = asyncio.create_task(
                run_session(session, self.watch, self.authors)
            )

    async def _cut_short(self, session_id: UUID) -> None:
        await _cancelled(self._tasks[session_id])
        await in_thread(stop_overdue, session_id, self._fences[session_id])

    def _forget_finished(self) -> None:
        for session_id in [key for key, task in self._tasks.items() if task.done()]:
            task = self._tasks.pop(session_id)
            del self._fences[session_id]
            if not task.cancelled() and task.exception() is not None:
                logger.error("session %s ended badly", session_id, exc_info=task.exception())

    async def _give_all_back(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=GOODBYE_SECONDS)
        for session_id, fence in self._fences.items():
            await in_thread(release, session_id, fence)


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait a while for it to end."""
    task.cancel()
    await asyncio.wait([task], timeout=GOODBYE_SECONDS)


async def _wait_for_either(ending: asyncio.Event, bell: Bell) -> None:
    """Wait for the end or a ring, at most LOOK_SECONDS."""
    waits = [asyncio.create_task(ending.wait()), asyncio.create_task(bell.wait(LOOK_SECONDS))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
