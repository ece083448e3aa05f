"""The sweeper: makes up for every message that was lost and every worker that died.

It runs every two seconds beside the recorder and needs nothing but database and artifact store.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from webapp.common.artifacts import alive_folder, artifact_store
from webapp.evaluations.attempts import fail_attempt, give_up, take_back
from webapp.evaluations.hints import message_of, send_hint
from webapp.evaluations.models import OPEN_JOB_STATES, Job, JobState
from webapp.evaluations.recording import SILENCE, record_result
from workers.presence import is_gone

FIRST_REPEAT = timedelta(seconds=10)
"""How long a hint may go without a sign of life before it is sent again; doubles with each one."""

LAST_REPEAT = timedelta(minutes=5)

NOBODY = timedelta(hours=1)
"""A job that no worker began in this time is given up."""

QUIET = timedelta(seconds=20)
QUIET_WANTED = timedelta(seconds=2)

STARVED = timedelta(minutes=15)
"""A background job that waited so long begins on a busy queue too, and does not give way then."""

BREATHER = timedelta(minutes=5)
"""Between two starved background jobs on one queue, so that nobody waits for two of them."""


def sweep(*, messages_flow: bool, begins: bool = False) -> None:
    """Look after all open jobs once.

    `messages_flow` says that workers' signs of life arrive: Redis is there and the recorder has no
    backlog. While they do not, silence proves nothing, and running jobs get more time. `begins` says that
    nobody swept before: workers that are found dead may have died with the site, for no fault of their jobs.
    """
    now = timezone.now()
    if not messages_flow:
        extend_deadlines(now)
    related = ("evaluation__problem__team", "evaluation__snapshot")
    for job in Job.objects.select_related(*related).filter(state__in=OPEN_JOB_STATES):
        _look_after(job, now, begins)


def extend_deadlines(now: datetime) -> None:
    """Give every running job another spell; also called when the sweeper itself begins."""
    Job.objects.filter(state=JobState.RUNNING, deadline__lt=now + SILENCE).update(
        deadline=now + SILENCE
    )


def start_background_jobs(*, sessions_run: bool, wanted: Collection[UUID]) -> int:
    """Release background jobs to queues that have been quiet for a while; returns how many.

    Such a job gives way to any other, so beginning it in vain only wastes work. It waits until no session
    runs and no other job was open for a while: QUIET, or QUIET_WANTED where somebody looks forward to it
    (`wanted` holds ids of problems). On a site that is never quiet it goes at last when it is STARVED, one
    in a BREATHER, and then it holds its device for up to a minute.
    """
    now = timezone.now()
    taken: set[str] = set()
    started = 0
    waiting = Job.objects.select_related("evaluation").filter(state=JobState.IDLE)
    for job in waiting.order_by("created_at")[:50]:
        quiet = QUIET_WANTED if job.evaluation.problem_id in wanted else QUIET
        calm = not sessions_run and not _busy_since(job.queue, now - quiet)
        if job.queue in taken or not (calm or _is_starved(job, now)):
            continue
        taken.add(job.queue)
        idle = Job.objects.filter(pk=job.pk, state=JobState.IDLE)
        queued = {"state": JobState.QUEUED, "queued_at": now, "gives_way": calm}
        if idle.update(**queued) and send_hint(job.pk):
            started += 1
    return started


def _busy_since(queue: str, moment: datetime) -> bool:
    """Whether a queue has open jobs, or had some after a moment."""
    jobs = Job.objects.filter(queue=queue)
    return jobs.filter(Q(state__in=OPEN_JOB_STATES) | Q(finished_at__gt=moment)).exists()


def _is_starved(job: Job, now: datetime) -> bool:
    """Whether a job has waited long enough, and its queue has had a rest from such jobs."""
    others = Job.objects.filter(queue=job.queue, background=True)
    recent = Q(state__in=OPEN_JOB_STATES) | Q(finished_at__gt=now - BREATHER)
    return job.created_at < now - STARVED and not others.filter(recent).exists()


def _look_after(job: Job, now: datetime, begins: bool) -> None:
    # Asked first: what a worker left in its last moment is then seen below.
    gone = job.state == JobState.RUNNING and is_gone(alive_folder(), job.worker)
    digest = artifact_store().get_ref(message_of(job).result_key)
    if digest is not None:
        record_result(job, digest, "")
    elif gone and begins:
        take_back(job, "its worker ended together with the site.")
    elif gone or (job.state == JobState.RUNNING and (job.deadline is None or job.deadline < now)):
        why = "its worker died." if gone else "its worker fell silent."
        fail_attempt(job, why, worker_lost=True)
    elif job.state == JobState.QUEUED and job.queued_at < now - NOBODY:
        give_up(job, f"no worker took it from the queue {job.queue}; is one running?")
    elif job.state == JobState.QUEUED and _hint_is_due(job, now):
        send_hint(job.pk)


def _hint_is_due(job: Job, now: datetime) -> bool:
    return job.hinted_at is None or job.hinted_at < now - _patience(job.hints)


def _patience(hints: int) -> timedelta:
    doubled: int = 2 ** max(0, hints - 1)
    return min(FIRST_REPEAT * doubled, LAST_REPEAT)
