"""Calling the database from coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that uses the database in the thread for such work; stale connections are closed."""
    return await cast(Awaitable[T], database_sync_to_async(function)(*args, **kwargs))
