"""Taking in what workers say: signs of life and answers.

Workers are not trusted further than their job: a message must carry the token and the fence of the
current attempt, the first valid answer closes the job, and what it holds must be about what was asked.
"""

from __future__ import annotations

import enum
import logging
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from webapp.common.artifacts import artifact_store
from webapp.evaluations.attempts import fail_attempt, take_back
from webapp.evaluations.models import (
    OPEN_JOB_STATES,
    Evaluation,
    EvaluationState,
    Job,
    JobKindChoice,
    JobState,
)
from webapp.evaluations.services import add_job, device_queue
from webapp.evaluations.settling import settle
from webapp.evaluations.tokens import token_fits
from workers.artifacts import ArtifactMissing
from workers.evaluation.verdicts import from_build, with_build
from workers.protocol.codec import ProtocolError, from_json, to_data
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildResult, BuildStatus, JobAnswer, JobPulse, JobReturn
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Status

logger = logging.getLogger(__name__)

SILENCE = timedelta(seconds=60)
"""A running job whose worker gives no sign of life for so long goes to another one."""

LONGEST = {JobKindChoice.BUILD: timedelta(minutes=15), JobKindChoice.DEVICE: timedelta(minutes=45)}
"""Signs of life prolong a job no further than this behind its start."""


class Outcome(enum.StrEnum):
    """What became of a worker's message."""

    RECORDED = "recorded"
    STALE = "stale"
    """Of an older attempt, or the job is closed."""
    FORGED = "forged"
    """The token does not fit."""
    RETURNED = "returned"
    """The worker handed the job back unfinished."""
    UNUSABLE = "unusable"
    """The answer cannot be read; the attempt counts as failed."""


def record_pulse(pulse: JobPulse) -> Outcome:
    """A worker has begun a job or is still at it."""
    job = _find(pulse.job)
    if job is None:
        return Outcome.STALE
    if not token_fits(job.pk, pulse.fence, pulse.token):
        return Outcome.FORGED
    now = timezone.now()
    mine = Job.objects.filter(pk=job.pk, fence=pulse.fence)
    if mine.filter(state=JobState.QUEUED).update(
        state=JobState.RUNNING, started_at=now, deadline=now + SILENCE, worker=pulse.worker[:200]
    ):
        _show_progress(job)
        return Outcome.RECORDED
    until = _deadline(job, now)
    moved = mine.filter(state=JobState.RUNNING, worker=pulse.worker[:200]).update(deadline=until)
    return Outcome.RECORDED if moved else Outcome.STALE


def record_answer(answer: JobAnswer) -> Outcome:
    """A worker reports where its answer lies."""
    job = _find(answer.job)
    if job is None:
        return Outcome.STALE
    if not token_fits(job.pk, answer.fence, answer.token):
        logger.warning("an answer to job %s carries a token that was never given out", job.pk)
        return Outcome.FORGED
    if (answer.attempt, answer.fence) != (job.attempt, job.fence):
        return Outcome.STALE
    return record_result(job, answer.result, answer.worker)


def record_result(job: Job, digest: str, worker: str) -> Outcome:
    """Record the answer that lies in the store under a digest, for the job's current attempt."""
    if job.state not in OPEN_JOB_STATES:
        return Outcome.STALE
    try:
        returned = _returned(digest)
        if returned:
            return Outcome.RETURNED if take_back(job, returned) else Outcome.STALE
        if job.kind == JobKindChoice.BUILD:
            return _record_build(job, _read(BuildResult, digest), worker)
        return _record_verdict(job, _checked(job, _read(Verdict, digest)), worker)
    except (ArtifactMissing, ProtocolError) as error:
        logger.warning("the answer to job %s cannot be used: %s", job.pk, error)
        fail_attempt(job, f"its answer could not be read ({type(error).__name__})")
        return Outcome.UNUSABLE


def _record_build(job: Job, build: BuildResult, worker: str) -> Outcome:
    evaluation = job.evaluation
    if build.status is BuildStatus.INFRASTRUCTURE and fail_attempt(
        job, build.summary, retry_only=True
    ):
        return Outcome.RECORDED
    goes_on = build.status is BuildStatus.BUILT and set(evaluation.request.stages) != {Stage.BUILD}
    with transaction.atomic():
        if not _close(job, worker):
            return Outcome.STALE
        if goes_on:
            add_job(
                evaluation,
                JobKindChoice.DEVICE,
                device_queue(evaluation.problem),
                background=job.background,
                build_data=to_data(build),
            )
        else:
            settle(evaluation.pk, from_build(evaluation.request, build))
    return Outcome.RECORDED


def _record_verdict(job: Job, verdict: Verdict, worker: str) -> Outcome:
    failed = verdict.status is Status.INFRASTRUCTURE
    if failed and fail_attempt(job, verdict.summary, retry_only=True):
        return Outcome.RECORDED
    with transaction.atomic():
        if not _close(job, worker):
            return Outcome.STALE
        build = job.build
        settle(job.evaluation.pk, with_build(verdict, build) if build else verdict)
    return Outcome.RECORDED


def _close(job: Job, worker: str) -> bool:
    """Move the job to `answered`, once; the fence keeps older attempts out."""
    mine = Job.objects.filter(pk=job.pk, fence=job.fence, state__in=OPEN_JOB_STATES)
    name = worker[:200] or job.worker
    return mine.update(state=JobState.ANSWERED, finished_at=timezone.now(), worker=name) == 1


def _checked(job: Job, verdict: Verdict) -> Verdict:
    """The verdict, if it is about what was asked."""
    request = job.evaluation.request
    for name in ("problem", "snapshot", "target", "tier", "precision", "stages"):
        if getattr(verdict, name) != getattr(request, name):
            raise ProtocolError(f"the verdict is about another {name}")
    if verdict.certified:
        raise ProtocolError("no worker certifies: that is for the site to do")
    return verdict


def _show_progress(job: Job) -> None:
    state = (
        EvaluationState.BUILDING if job.kind == JobKindChoice.BUILD else EvaluationState.MEASURING
    )
    open_states = (EvaluationState.PENDING, EvaluationState.BUILDING, EvaluationState.MEASURING)
    Evaluation.objects.filter(pk=job.evaluation.pk, state__in=open_states).update(state=state)


def _deadline(job: Job, now: datetime) -> datetime:
    longest = LONGEST[JobKindChoice(job.kind)]
    return min(now + SILENCE, (job.started_at or now) + longest)


def _find(job_id: str) -> Job | None:
    try:
        key = UUID(job_id)
    except ValueError:
        return None
    related = ("evaluation__problem__team", "evaluation__snapshot")
    return Job.objects.select_related(*related).filter(pk=key).first()


Message = TypeVar("Message")


def _read(kind: type[Message], digest: str) -> Message:
    return from_json(kind, artifact_store().get(digest))


def _returned(digest: str) -> str:
    """Why the job was handed back; empty for a real answer. Raises `ArtifactMissing`."""
    try:
        return _read(JobReturn, digest).returned[:400]
    except ProtocolError:
        return ""
