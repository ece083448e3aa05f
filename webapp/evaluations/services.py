"""Asking the judge."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from django.db import transaction

from webapp.common.artifacts import artifact_store
from webapp.common.errors import UserError
from webapp.evaluations.hints import send_hint
from webapp.evaluations.models import Evaluation, Job, JobKindChoice, JobState, Snapshot
from webapp.problems.models import Problem
from webapp.teams.models import Team
from workers.artifacts import put_files
from workers.celery_app import BUILD_QUEUE
from workers.protocol.codec import ProtocolError
from workers.protocol.problem import Precision, Stage, Target, Tier
from workers.workspace.layout import check_author_path

DEVICE_QUEUES = {Target.CPU: "device.cpu", Target.CUDA: "device.cuda"}


def keep_snapshot(team: Team, files: Mapping[str, bytes]) -> Snapshot:
    """Store an author's files; equal files give the same row. Raises `UserError` for paths or sizes."""
    try:
        for path in files:
            check_author_path(path)
        digest = put_files(artifact_store(), files)
    except ProtocolError as error:
        raise UserError(f"{error}.", "files") from error
    snapshot, _ = Snapshot.objects.get_or_create(
        team=team, digest=digest, defaults={"paths": sorted(files)}
    )
    return snapshot


def request_evaluation(
    problem: Problem,
    files: Mapping[str, bytes] | None,
    stages: tuple[Stage, ...],
    *,
    tier: Tier = Tier.QUICK,
    precision: Precision | None = None,
    background: bool = False,
) -> Evaluation:
    """Put a question to the judge; the row comes back `pending`, the hint follows the commit.

    `files` are the author's files, None for stages that look at the problem alone. The precision is the
    problem's own unless another is given. A `background` question waits until no other is open.
    Raises `UserError` for files that may not be in a snapshot.
    """
    with transaction.atomic():
        snapshot = None if files is None else keep_snapshot(problem.team, files)
        evaluation = Evaluation.objects.create(
            team=problem.team,
            problem=problem,
            snapshot=snapshot,
            stages=[stage.value for stage in stages],
            tier=tier.value,
            precision=(precision or problem.spec.precision).value,
        )
        if snapshot is not None:
            add_job(evaluation, JobKindChoice.BUILD, BUILD_QUEUE, background=background)
        else:
            add_job(evaluation, JobKindChoice.DEVICE, device_queue(problem), background=background)
    return evaluation


def device_queue(problem: Problem) -> str:
    """The queue of the workers that can measure a problem."""
    return DEVICE_QUEUES[Target(problem.target)]


def add_job(
    evaluation: Evaluation,
    kind: JobKindChoice,
    queue: str,
    *,
    background: bool = False,
    build_data: object = None,
) -> Job:
    """Make a job and hint at it once it is committed."""
    job = Job.objects.create(
        evaluation=evaluation,
        kind=kind,
        queue=queue,
        background=background,
        gives_way=background,
        state=JobState.IDLE if background else JobState.QUEUED,
        build_data=build_data,
    )
    if not background:
        transaction.on_commit(functools.partial(send_hint, job.pk))
    return job
