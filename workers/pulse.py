"""Messages from workers to the recorder: signs of life while a job runs, and where its answer lies.

Both may be lost: the site's sweeper looks into the artifact store. So nothing here raises when Redis is
away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery
from kombu.exceptions import OperationalError

from workers.celery_app import WEB_QUEUE
from workers.protocol.codec import to_json
from workers.protocol.requests import JobAnswer, JobMessage, JobPulse

logger = logging.getLogger(__name__)

PULSE_SECONDS = 10.0

_ONCE = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
_RETRY = {"max_retries": 8, "interval_start": 0, "interval_step": 0.5, "interval_max": 3}


@contextmanager
def pulsing(app: Celery, message: JobMessage, worker: str) -> Iterator[None]:
    """Say that the job has begun, and every ten seconds that it goes on."""
    pulse = JobPulse(message.job, message.attempt, message.fence, message.token, worker)
    ending = threading.Event()

    def beat() -> None:
        _tell(app, "record_pulse", pulse, _ONCE)
        while not ending.wait(PULSE_SECONDS):
            _tell(app, "record_pulse", pulse, _ONCE)

    thread = threading.Thread(target=beat, name="pulse", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(timeout=5)


def tell_answer(app: Celery, message: JobMessage, digest: str, worker: str) -> None:
    """Say where the answer lies, with some patience."""
    answer = JobAnswer(message.job, message.attempt, message.fence, message.token, digest, worker)
    _tell(app, "record_answer", answer, _RETRY)


def _tell(app: Celery, task: str, body: JobPulse | JobAnswer, policy: dict[str, float]) -> None:
    name = f"webapp.evaluations.tasks.{task}"
    text = to_json(body).decode()
    try:
        app.send_task(name, args=[text], queue=WEB_QUEUE, retry=True, retry_policy=policy)
    except (OperationalError, OSError) as error:
        logger.warning("%s for job %s was not sent: %s", task, body.job, error)
