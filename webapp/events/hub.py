"""One log reader per process and stream, shared by all sockets that show it.

The reader listens to the stream's bell, looks into the database when it rings and every two seconds
anyhow, and wakes its sockets. Each socket has a cursor of its own: it takes what the reader holds, or
reads the database itself where it is further behind. So nothing depends on a bell, a join at the wrong
moment, or on how slow another socket is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.db import DatabaseError

from webapp.common.database_thread import in_thread
from webapp.events import queries
from webapp.events.bells import stream_group
from webapp.events.listening import Bell
from workers.protocol.events import Event

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How long a lost bell can hold an event up."""

HELD_EVENTS = 1000
HELD_DELTAS = 500


class Reader:
    """One socket's place in a stream."""

    def __init__(self, hub: Hub, cursor: int) -> None:
        self.hub = hub
        self.cursor = cursor
        self.deltas: deque[tuple[int, str]] = deque(maxlen=HELD_DELTAS)
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Something may be there."""
        self._awake.set()

    async def next(self, seconds: float) -> tuple[list[Event], list[tuple[int, str]]]:
        """Events behind the cursor (one page) and deltas; both empty when nothing came in some seconds."""
        self._awake.clear()
        events = await self._events()
        if not events and not self.deltas:
            try:
                async with asyncio.timeout(seconds):
                    await self._awake.wait()
            except TimeoutError:
                return [], []
            events = await self._events()
        if events:
            self.cursor = events[-1].seq
        deltas = list(self.deltas)
        self.deltas.clear()
        return events, deltas

    async def _events(self) -> list[Event]:
        held = self.hub.held_after(self.cursor)
        if held is not None:
            return held[: queries.PAGE]
        return await in_thread(queries.after, self.hub.stream_id, self.cursor)


class Hub:
    """The log reader of one stream in this process."""

    def __init__(self, stream_id: UUID) -> None:
        self.stream_id = stream_id
        self.readers: set[Reader] = set()
        self.bell = Bell(stream_group(stream_id), self._hear)
        self._held: deque[Event] = deque(maxlen=HELD_EVENTS)
        self._head = -1
        self._task = asyncio.create_task(self._run())

    def held_after(self, cursor: int) -> list[Event] | None:
        """The held events behind a cursor; None where the database must be asked."""
        if self._head < 0 or cursor > self._head:
            return None
        first = self._held[0].seq if self._held else self._head + 1
        if cursor + 1 < first:
            return None
        return [event for event in self._held if event.seq > cursor]

    def stop(self) -> None:
        """End the reader; its last socket has left."""
        self._task.cancel()

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("type") == "stream.delta":
            for reader in self.readers:
                reader.deltas.append((int(message["turn"]), str(message["text"])))
                reader.wake()
        else:
            self.bell.ring()

    async def _run(self) -> None:
        listening = asyncio.create_task(self.bell.listen())
        try:
            self._head = await in_thread(queries.last_seq, self.stream_id)
            while True:
                await self._look()
                await self.bell.wait(LOOK_SECONDS)
        finally:
            listening.cancel()

    async def _look(self) -> None:
        """Read what is new and wake the sockets."""
        try:
            while True:
                events = await in_thread(queries.after, self.stream_id, self._head)
                if not events:
                    return
                self._held.extend(events)
                self._head = events[-1].seq
                for reader in self.readers:
                    reader.wake()
        except DatabaseError:
            logger.exception("stream %s cannot be read", self.stream_id)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[UUID, Hub]] = WeakKeyDictionary()


def join(stream_id: UUID, cursor: int) -> Reader:
    """A place in a stream behind a cursor; the process's reader of the stream starts if there is none."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    hub = hubs.get(stream_id)
    if hub is None:
        hub = hubs[stream_id] = Hub(stream_id)
    reader = Reader(hub, cursor)
    hub.readers.add(reader)
    return reader


def leave(reader: Reader) -> None:
    """Give a place back; the last one ends the process's reader of the stream."""
    hub = reader.hub
    hub.readers.discard(reader)
    if not hub.readers:
        _hubs.get(asyncio.get_running_loop(), {}).pop(hub.stream_id, None)
        hub.stop()
