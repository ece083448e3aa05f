"""When an attempt at a job does not lead to an answer: another one, or the end.

A device worker that is lost twice with the same snapshot in its hands was most likely brought down by
it, so that the snapshot gets `runtime_error` and is not tried again. Everything else that fails until
its attempts are used up is `infrastructure`: nothing is said about the candidate. An attempt that was
handed back, because its worker was stopped or something more urgent came, did not fail.
"""

from __future__ import annotations

import dataclasses
import functools
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.evaluations.hints import send_hint
from webapp.evaluations.models import (
    OPEN_JOB_STATES,
    Evaluation,
    EvaluationState,
    Job,
    JobKindChoice,
    JobState,
)
from webapp.evaluations.settling import settle
from workers.evaluation.verdicts import infrastructure
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Status

_BEGUN = (EvaluationState.BUILDING, EvaluationState.MEASURING)

WITHDRAWN = "Withdrawn: nobody waits for it any more."

MAX_FAILURES = 3
MAX_FAILURES_WITH_SNAPSHOT = 2

MAX_RETURNS = 100
"""A job that was handed back more often than this counts as failed each time: nobody should be that unlucky."""


def fail_attempt(
    job: Job, why: str, *, retry_only: bool = False, worker_lost: bool = False
) -> bool:
    """Give a job to the next worker, or close it when its attempts are used up.

    Tells whether this call changed the job. With `retry_only` a job without attempts left stays as it
    is, for the caller to close with the verdict that it has in hand.
    """
    job.failures += 1
    job.losses += worker_lost
    if job.failures < _allowed_failures(job):
        return _again(job, JobState.QUEUED, failures=job.failures, losses=job.losses)
    return False if retry_only else give_up(job, why)


def take_back(job: Job, why: str) -> bool:
    """A worker handed a job back unfinished, or died together with the site: it waits again as before.

    Tells whether this call changed the job.
    """
    if job.returns >= MAX_RETURNS:
        return fail_attempt(job, why)
    state = JobState.IDLE if job.background else JobState.QUEUED
    return _again(job, state, returns=job.returns + 1)


def _again(job: Job, state: JobState, **counts: int) -> bool:
    mine = Job.objects.filter(pk=job.pk, fence=job.fence, state__in=OPEN_JOB_STATES)
    with transaction.atomic():
        again = mine.update(
            state=state,
            attempt=F("attempt") + 1,
            fence=F("fence") + 1,
            queued_at=timezone.now(),
            gives_way=F("background"),
            deadline=None,
            started_at=None,
            hinted_at=None,
            hints=0,
            worker="",
            **counts,
        )
        if again:
            Evaluation.objects.filter(pk=job.evaluation.pk, state__in=_BEGUN).update(
                state=EvaluationState.PENDING
            )
        if again and state == JobState.QUEUED:
            transaction.on_commit(functools.partial(send_hint, job.pk))
    return again == 1


def give_up(job: Job, why: str) -> bool:
    """Close a job for good and record the verdict that follows; tells whether this call did it."""
    mine = Job.objects.filter(pk=job.pk, fence=job.fence, state__in=OPEN_JOB_STATES)
    with transaction.atomic():
        counts = {"failures": job.failures, "losses": job.losses}
        if mine.update(state=JobState.GIVEN_UP, finished_at=timezone.now(), **counts) != 1:
            return False
        verdict = _last_verdict(job, why)
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


def _allowed_failures(job: Job) -> int:
    risky = job.kind == JobKindChoice.DEVICE and job.evaluation.snapshot is not None
    return MAX_FAILURES_WITH_SNAPSHOT if risky else MAX_FAILURES


def _last_verdict(job: Job, why: str) -> Verdict:
    request = job.evaluation.request
    with_snapshot = job.kind == JobKindChoice.DEVICE and request.snapshot
    if with_snapshot and job.losses >= MAX_FAILURES_WITH_SNAPSHOT:
        text = f"{job.losses} device workers were lost while they ran this candidate."
        return dataclasses.replace(infrastructure(request, text), status=Status.RUNTIME_ERROR)
    return infrastructure(request, f"No verdict after {job.attempt - job.returns} attempts: {why}")
