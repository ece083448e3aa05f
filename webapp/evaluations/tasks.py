"""What workers may tell the recorder. Thin: unpack, one call, done."""

from __future__ import annotations

import logging

from webapp.celery_app import app
from webapp.evaluations import recording
from workers.protocol.codec import ProtocolError, from_json
from workers.protocol.requests import JobAnswer, JobPulse

logger = logging.getLogger(__name__)


@app.task(name="webapp.evaluations.tasks.record_answer")  # type: ignore[untyped-decorator]
def record_answer(message: str) -> None:
    """An answer lies in the artifact store."""
    try:
        recording.record_answer(from_json(JobAnswer, message))
    except ProtocolError as error:
        logger.warning("dropped an answer: %s", error)


@app.task(name="webapp.evaluations.tasks.record_pulse")  # type: ignore[untyped-decorator]
def record_pulse(message: str) -> None:
    """A worker has begun a job or is still at it."""
    try:
        recording.record_pulse(from_json(JobPulse, message))
    except ProtocolError as error:
        logger.warning("dropped a sign of life: %s", error)
