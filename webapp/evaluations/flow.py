"""Whether workers' messages arrive, so that their silence means something."""

from __future__ import annotations

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from workers.celery_app import WEB_QUEUE


def backlog() -> int | None:
    """Messages that wait for a recorder; None when Redis cannot be asked."""
    client = Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        return int(client.llen(WEB_QUEUE))
    except (RedisError, OSError):
        return None
    finally:
        client.close()
