"""Uploading problems and recording what the judge said about them.

`create_problem` leaves the problem in the state `checking`; asking the judge is the business of
`webapp.evaluations.admission`, which stands above this app and offers both in one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db import transaction
from django.utils.text import slugify

from webapp.common.artifacts import artifact_store
from webapp.common.errors import UserError
from webapp.problems.models import Problem, ProblemState
from webapp.problems.upload import CheckedProblem, check_upload
from webapp.teams.models import Team, User
from webapp.teams.queries import is_member
from workers.artifacts import put_files
from workers.capabilities import announced
from workers.protocol.codec import to_data
from workers.protocol.problem import ProblemSpec, Target

THREADS = "threads"
"""The part of `problem.toml` that forms ask for by itself; errors about it name it."""

OPEN_TARGETS = (Target.CPU,)
"""Targets for which this site has judges."""


def create_problem(team: Team, user: User, files: Mapping[str, bytes], title: str = "") -> Problem:
    """Store an upload as a problem in the state `checking`.

    The same files uploaded again by the same team give the problem that exists; a refused one goes back
    to `checking`, since the judge may have changed. Raises `UserError`.
    """
    if not is_member(user, team.pk):
        raise UserError("You are not a member of this team.", "team")
    upload = check_upload(files, title)
    if upload.spec.target not in OPEN_TARGETS:
        raise UserError(
            f"problem.toml: there is no {upload.spec.target.value} worker here yet; "
            f'use target = "{OPEN_TARGETS[0].value}".',
            "problem.toml",
        )
    _check_threads(upload.spec)
    digest = put_files(artifact_store(), upload.files)
    with transaction.atomic():
        known = Problem.objects.select_for_update().filter(team=team, digest=digest).first()
        if known is None:
            return _insert(team, user, upload, digest)
        if known.state == ProblemState.REFUSED:
            known.state, known.reason = ProblemState.CHECKING, ""
            known.save(update_fields=["state", "reason"])
    return known


def record_admission(problem_id: UUID, admitted: bool, reason: str) -> bool:
    """Move a problem from `checking` to `ready` or `refused`; tells whether this call did it."""
    state = ProblemState.READY if admitted else ProblemState.REFUSED
    checking = Problem.objects.filter(pk=problem_id, state=ProblemState.CHECKING)
    return checking.update(state=state, reason="" if admitted else reason) == 1


def _check_threads(spec: ProblemSpec) -> None:
    """Refuse what no device here has cores for, where devices have said how many they have."""
    offers = announced(artifact_store(), spec.target)
    cores = max((one.device.cores for one in offers if one.device), default=spec.threads)
    if spec.threads > cores:
        raise UserError(
            f"{spec.threads} threads are asked for, but the largest {spec.target.value} device here has "
            f"{cores} core{'' if cores == 1 else 's'}: ask for at most {cores}.",
            THREADS,
        )


def _insert(team: Team, user: User, upload: CheckedProblem, digest: str) -> Problem:
    return Problem.objects.create(
        team=team,
        creator=user,
        title=upload.title,
        slug=_free_slug(team, upload.title),
        digest=digest,
        spec_data=to_data(upload.spec),
        target=upload.spec.target.value,
    )


def _free_slug(team: Team, title: str) -> str:
    """A slug that the team has not used yet; the caller's transaction keeps it free."""
    stem = slugify(title)[:70] or "problem"
    taken = set(
        Problem.objects.filter(team=team, slug__startswith=stem).values_list("slug", flat=True)
    )
    if stem not in taken:
        return stem
    return next(f"{stem}-{n}" for n in range(2, len(taken) + 3) if f"{stem}-{n}" not in taken)
