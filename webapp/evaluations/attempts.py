"""When an attempt at a job fails: another one, or the end.

A device worker that is lost twice with the same snapshot in its hands was most likely brought down by
it, so that the snapshot gets `runtime_error` and is not tried again. Everything else that fails until
its attempts are used up is `infrastructure`: nothing is said about the candidate.
"""

from __future__ import annotations

import dataclasses
import functools
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.evaluations.hints import send_hint
from webapp.evaluations.models import OPEN_JOB_STATES, Evaluation, Job, JobKindChoice, JobState
from webapp.evaluations.settling import settle
from workers.evaluation.verdicts import infrastructure
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Status

WITHDRAWN = "Withdrawn: nobody waits for it any more."

MAX_ATTEMPTS = 3
MAX_ATTEMPTS_WITH_SNAPSHOT = 2


def fail_attempt(
    job: Job, why: str, *, retry_only: bool = False, worker_lost: bool = False
) -> bool:
    """Give a job to the next worker, or close it when its attempts are used up.

    Tells whether this call changed the job. With `retry_only` a job without attempts left stays as it
    is, for the caller to close with the verdict that it has in hand.
    """
    mine = Job.objects.filter(pk=job.pk, fence=job.fence, state__in=OPEN_JOB_STATES)
    if job.attempt < _attempts(job):
        with transaction.atomic():
            again = mine.update(
                state=JobState.QUEUED,
                attempt=F("attempt") + 1,
                fence=F("fence") + 1,
                deadline=None,
                started_at=None,
                hinted_at=None,
                hints=0,
                worker="",
            )
            if again:
                transaction.on_commit(functools.partial(send_hint, job.pk))
        return again == 1
    return False if retry_only else give_up(job, why, worker_lost=worker_lost)


def give_up(job: Job, why: str, *, worker_lost: bool = False) -> bool:
    """Close a job for good and record the verdict that follows; tells whether this call did it."""
    mine = Job.objects.filter(pk=job.pk, fence=job.fence, state__in=OPEN_JOB_STATES)
    with transaction.atomic():
        if mine.update(state=JobState.GIVEN_UP, finished_at=timezone.now()) != 1:
            return False
        verdict = _last_verdict(job, why, worker_lost)
        lost = verdict.status is Status.INFRASTRUCTURE
        return settle(job.evaluation.pk, verdict, lost=lost)


def withdraw(evaluation_id: UUID) -> bool:
    """Take back a question that nobody waits for any more; tells whether it was still open.

    A worker that is at it goes on to its end, but its answer comes too late, and no further job follows.
    """
    jobs = Job.objects.filter(evaluation_id=evaluation_id)
    with transaction.atomic():
        evaluation = Evaluation.objects.select_related("problem", "snapshot").get(pk=evaluation_id)
        if evaluation.over:
            return False
        jobs.filter(state__in=(JobState.IDLE, *OPEN_JOB_STATES)).update(
            state=JobState.GIVEN_UP, finished_at=timezone.now()
        )
        return settle(evaluation_id, infrastructure(evaluation.request, WITHDRAWN), lost=True)


def _attempts(job: Job) -> int:
    risky = job.kind == JobKindChoice.DEVICE and job.evaluation.snapshot is not None
    return MAX_ATTEMPTS_WITH_SNAPSHOT if risky else MAX_ATTEMPTS


def _last_verdict(job: Job, why: str, worker_lost: bool) -> Verdict:
    request = job.evaluation.request
    if worker_lost and job.kind == JobKindChoice.DEVICE and request.snapshot:
        text = f"{job.attempt} device workers were lost while they ran this candidate."
        return dataclasses.replace(infrastructure(request, text), status=Status.RUNTIME_ERROR)
    return infrastructure(request, f"No verdict after {job.attempt} attempts: {why}")
