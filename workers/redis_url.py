"""One address for Redis, in the forms that its three users want.

People write `unix:///path/redis.sock` or `redis://host:6379/0`; redis-py and Channels take these as
they are, Celery wants another spelling for sockets.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SCHEMES = ("unix", "redis", "rediss")

MAX_SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux."""


def default_redis_url(home: Path) -> str:
    """The socket of the embedded server."""
    return f"unix://{home / 'redis.sock'}"


def problem_with(url: str) -> str:
    """One sentence that says why an address cannot be used; empty when it can."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        return (
            f"WARPSMITH_REDIS_URL is {url!r}; write unix:///path/redis.sock or redis://host:6379/0"
        )
    if parts.scheme == "unix" and len(parts.path.encode()) > MAX_SOCKET_PATH_BYTES:
        return (
            f"the path of the Redis socket has {len(parts.path.encode())} bytes, "
            f"{MAX_SOCKET_PATH_BYTES} are allowed: choose a shorter WARPSMITH_HOME"
        )
    return ""


def broker_url(url: str) -> str:
    """The same address as Celery spells it."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"
