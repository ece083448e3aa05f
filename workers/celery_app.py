"""The Celery door of builder and device workers; the site makes its own app from the same recipe.

Messages are hints in JSON, acknowledged when work begins. Nothing waits for a result and none is kept:
answers lie in the artifact store, and the database of the site is the truth. So a Redis that restarts
empty costs time, never work.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery

from workers.evaluation.config import WorkerConfig, config_from_environment
from workers.redis_url import broker_url, default_redis_url

WEB_QUEUE = "web"
BUILD_QUEUE = "build"


def make_app(name: str, broker: str, include: list[str], **options: Any) -> Celery:
    """A Celery app with the settings that all of them share."""
    app = Celery(name, broker=broker, include=include, set_as_current=False, **options)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=False,
        task_default_queue=WEB_QUEUE,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        # Remote control would let one worker command the others.
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=4,
        broker_transport_options={
            # Hints are acknowledged at once; this bounds those that a dying worker had fetched ahead.
            "visibility_timeout": 3600,
            "socket_connect_timeout": 4,
            "socket_keepalive": not broker.startswith("redis+socket"),
            "health_check_interval": 10,
            "retry_on_timeout": True,
        },
        task_publish_retry=True,
        task_publish_retry_policy={
            "max_retries": 2,
            "interval_start": 0,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
        timezone="UTC",
    )
    return app


def worker_config() -> WorkerConfig:
    """The settings of builder and judge in this process."""
    return config_from_environment(os.environ)


def _broker() -> str:
    home = Path(os.environ.get("WARPSMITH_HOME") or Path(__file__).parents[1] / "var")
    file = os.environ.get("WARPSMITH_REDIS_URL_FILE")
    given = Path(file).read_text().strip() if file else os.environ.get("WARPSMITH_REDIS_URL")
    return broker_url(given or default_redis_url(home.expanduser().resolve()))


app = make_app("warpsmith-workers", _broker(), ["workers.tasks"], fixups=[])
