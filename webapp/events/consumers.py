"""The socket of a stream: replay from a cursor, then live, until the browser goes.

ws/streams/<id>/?after=N    {"type":"events","events":[...]}   in order, without gaps, `seq` > N
                            {"type":"delta","turn":1,"text":"…"}   may be lost
                            {"type":"ping"}
closes with 4401 without sign-in, 4404 for a stream that does not exist or is not the team's.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer

from webapp.common.database_thread import in_thread
from webapp.events import hub
from webapp.events.queries import may_read
from workers.protocol.codec import to_data

FRAME_SECONDS = 0.05
"""Frames are at least so far apart; what happens between them travels together."""

PING_SECONDS = 15.0
"""A quiet socket gets a ping, and membership is looked up again."""

SIGN_IN = 4401
NOT_FOUND = 4404


class StreamConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Shows one stream to one browser."""

    # The hub listens for all sockets of the process; a channel per socket would need Redis to be there.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        """Check who comes, then begin to send."""
        self.sender: asyncio.Task[None] | None = None
        await self.accept()
        self.stream_id: UUID = self.scope["url_route"]["kwargs"]["stream_id"]
        if not self.scope["user"].is_authenticated:
            await self.close(SIGN_IN)
        elif not await self._may_read():
            await self.close(NOT_FOUND)
        else:
            self.sender = asyncio.create_task(self._send_all(self._cursor()))

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self.sender is not None:
            self.sender.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing that a browser says here means anything."""

    async def _send_all(self, cursor: int) -> None:
        reader = hub.join(self.stream_id, cursor)
        checked = time.monotonic()
        try:
            while True:
                events, deltas = await reader.next(PING_SECONDS)
                if time.monotonic() - checked >= PING_SECONDS:
                    checked = time.monotonic()
                    if not await self._may_read():
                        await self.close(NOT_FOUND)
                        return
                if events:
                    await self._send({"type": "events", "events": [to_data(e) for e in events]})
                for turn, text in _joined(deltas):
                    await self._send({"type": "delta", "turn": turn, "text": text})
                if not events and not deltas:
                    await self._send({"type": "ping"})
                await asyncio.sleep(FRAME_SECONDS)
        finally:
            hub.leave(reader)

    async def _send(self, frame: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(frame, separators=(",", ":"), ensure_ascii=False))

    async def _may_read(self) -> bool:
        return await in_thread(may_read, self.scope["user"], self.stream_id)

    def _cursor(self) -> int:
        given = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("after", ["0"])[
            0
        ]
        return int(given) if given.isdecimal() and len(given) < 19 else 0


def _joined(deltas: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Deltas of one turn that follow each other as one."""
    joined: list[tuple[int, str]] = []
    for turn, text in deltas:
        if joined and joined[-1][0] == turn:
            joined[-1] = (turn, joined[-1][1] + text)
        else:
            joined.append((turn, text))
    return joined
