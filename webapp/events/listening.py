"""Hearing bells: a subscription that survives Redis going away and coming back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Bell:
    """Listens to a group; several rings before a look count as one."""

    def __init__(
        self, group: str, on_message: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self.group = group
        self.subscribed = asyncio.Event()
        """Set while Redis knows of us; nothing may rely on it but tests and speed."""
        self._rung = asyncio.Event()
        self._on_message = on_message

    async def wait(self, seconds: float) -> bool:
        """Wait for a ring, at most some seconds; tells whether there was one since the last call."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    async def listen(self) -> None:
        """Listen until cancelled; an unreachable Redis is tried again and again."""
        while True:
            try:
                await self._listen_once()
            except (RedisError, OSError, TimeoutError) as error:
                logger.debug("no bell from %s: %s", self.group, error)
            self.subscribed.clear()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen_once(self) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        channel = await layer.new_channel()
        try:
            await layer.group_add(self.group, channel)
            self.subscribed.set()
            # What was rung before this moment may have been missed.
            self._rung.set()
            while True:
                message = await layer.receive(channel)
                if self._on_message is not None:
                    self._on_message(message)
                else:
                    self._rung.set()
        finally:
            await self._leave(layer, channel)

    async def _leave(self, layer: Any, channel: str) -> None:
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await layer.group_discard(self.group, channel)
        except (RedisError, OSError, TimeoutError) as error:
            logger.debug("could not leave %s: %s", self.group, error)

    def ring(self) -> None:
        """Ring it from inside the process."""
        self._rung.set()
