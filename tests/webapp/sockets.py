"""A browser's end of a WebSocket, spoken to the ASGI application."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator


class Socket(ApplicationCommunicator):
    """Connects, reads JSON frames, closes."""

    def __init__(self, application: Any, url: str, headers: list[tuple[bytes, bytes]]) -> None:
        parts = urlsplit(url)
        scope = {
            "type": "websocket",
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Whether the application accepted."""
        await self.send_input({"type": "websocket.connect"})
        message = await self.receive_output(timeout=5)
        return bool(message["type"] == "websocket.accept")

    async def frame(self, timeout: float = 6) -> dict[str, Any]:
        """The next frame."""
        message = await self.receive_output(timeout=timeout)
        assert message["type"] == "websocket.send", message
        found: dict[str, Any] = json.loads(message["text"])
        return found

    async def disconnect(self) -> None:
        """Close from this side."""
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=5)
