"""The Celery workers, as real processes, take messages again after Redis was killed and came back empty."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webapp.redis_server import RedisServer
from workers.celery_app import make_app
from workers.redis_url import broker_url

REPOSITORY = Path(__file__).resolve().parents[2]
QUIET = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING", "--pool", "threads")

WORKERS = {
    "web": ("webapp.celery_app", "webapp.evaluations.tasks.record_answer", "dropped an answer"),
    "build": ("workers.celery_app", "workers.tasks.build", "ProtocolError: JobMessage"),
}


@pytest.fixture
def home() -> Iterator[Path]:
    # Short, because the path of a socket must be.
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("queue", WORKERS)
def test_a_worker_takes_messages_again_after_redis_was_killed(home, queue):
    app_name, task, trace = WORKERS[queue]
    redis = RedisServer(home / "redis.sock")
    redis.start()
    environment = {**os.environ, "WARPSMITH_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    if queue == "web":
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, cwd=REPOSITORY, env=environment, check=True, timeout=120)
    log = home / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", app_name, "worker", "-Q", queue, *QUIET]
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [*command, "-c", "1"], cwd=REPOSITORY, env=environment, stdout=output, stderr=output
        )
    try:
        send_nonsense(redis, task, queue)
        wait_for(log, trace, 1)
        redis.kill()
        time.sleep(3)
        redis.start()
        send_nonsense(redis, task, queue)
        wait_for(log, trace, 2)
    finally:
        worker.terminate()
        code = worker.wait(30)
        redis.kill()
    assert code == 0


def send_nonsense(redis: RedisServer, task: str, queue: str) -> None:
    app = make_app("test", broker_url(redis.url), [], fixups=[])
    app.send_task(task, args=["{}"], queue=queue)
    app.close()


def wait_for(log: Path, trace: str, count: int) -> None:
    end = time.monotonic() + 60
    while log.read_text(errors="replace").count(trace) < count:
        assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)
