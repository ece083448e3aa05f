"""Bells: small messages through Redis that say "look again", never what happened.

A lost bell costs a reader some seconds, since every reader also looks by itself. So nothing here ever
fails a caller: an unreachable or frozen Redis is logged and forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

BELL_SECONDS = 1.0
"""How long a bell may hold up its ringer."""

SILENT_SECONDS = 2.0

WORK_GROUP = "work"
"""Rung when a session waits for a host, or when somebody asked a running one for something."""


def stream_group(stream_id: UUID) -> str:
    """The group of a stream's readers."""
    return f"stream.{stream_id.hex}"


class _Silence:
    """After a bell that failed, others are not even tried for a while: each costs its ringer time."""

    until = 0.0


async def ring(group: str, message: dict[str, Any]) -> bool:
    """Send a message to a group; tells whether Redis took it."""
    layer = get_channel_layer()
    if layer is None or time.monotonic() < _Silence.until:
        return False
    try:
        async with asyncio.timeout(BELL_SECONDS):
            await layer.group_send(group, message)
    except (RedisError, OSError, TimeoutError) as error:
        _Silence.until = time.monotonic() + SILENT_SECONDS
        logger.warning("no bell for %s: %s", group, error or type(error).__name__)
        return False
    return True


def ring_from_thread(group: str, message: dict[str, Any]) -> bool:
    """The same for code outside the event loop."""
    return async_to_sync(ring)(group, message)


def tick_stream(stream_id: UUID) -> None:
    """Tell a stream's readers that it grew."""
    ring_from_thread(stream_group(stream_id), {"type": "stream.tick"})


async def send_delta(stream_id: UUID, turn: int, text: str) -> None:
    """Show a piece of text that is being written. It is kept nowhere."""
    await ring(stream_group(stream_id), {"type": "stream.delta", "turn": turn, "text": text})


def call_for_hosts() -> None:
    """Tell the session hosts that the database holds something for them."""
    ring_from_thread(WORK_GROUP, {"type": "work.tick"})
