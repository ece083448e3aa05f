"""Hints: Celery messages that tell workers about rows of the job table.

A hint may be lost, doubled or late. Sending one never fails the caller: what Redis does not take now,
the sweeper sends later.
"""

from __future__ import annotations

import logging
from uuid import UUID

from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from webapp.celery_app import app
from webapp.evaluations.models import Job, JobKindChoice, JobState
from webapp.evaluations.tokens import job_token
from workers.protocol.codec import to_json
from workers.protocol.requests import JobKind, JobMessage

logger = logging.getLogger(__name__)

TASKS = {JobKind.BUILD: "workers.tasks.build", JobKind.DEVICE: "workers.tasks.measure"}


def message_of(job: Job) -> JobMessage:
    """The hint at a job's current attempt."""
    return JobMessage(
        job=str(job.pk),
        kind=JobKind(job.kind),
        attempt=job.attempt,
        fence=job.fence,
        token=job_token(job.pk, job.fence),
        request=job.evaluation.request,
        build=job.build if job.kind == JobKindChoice.DEVICE else None,
        gives_way=job.gives_way,
    )


def send_hint(job_id: UUID) -> bool:
    """Send the hint at a queued job; tells whether Redis took it."""
    job = (
        Job.objects.select_related("evaluation__problem", "evaluation__snapshot")
        .filter(pk=job_id, state=JobState.QUEUED)
        .first()
    )
    if job is None:
        return False
    message = message_of(job)
    sent = _send(TASKS[message.kind], message, job.queue)
    if sent:
        same_attempt = Job.objects.filter(pk=job_id, fence=job.fence)
        same_attempt.update(hinted_at=timezone.now(), hints=F("hints") + 1)
    return sent


def _send(task: str, message: JobMessage, queue: str) -> bool:
    try:
        app.send_task(task, args=[to_json(message).decode()], queue=queue)
    except (OperationalError, RedisError, OSError) as error:
        logger.warning("no hint for job %s: %s", message.job, error)
        return False
    return True
