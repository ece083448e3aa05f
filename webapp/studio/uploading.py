"""From a filled-in upload form to what the person wants to see next."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from webapp.common.errors import UserError
from webapp.evaluations.admission import upload_problem
from webapp.problems.forms import UploadForm
from webapp.problems.models import Problem
from webapp.problems.queries import files_of, visible_to
from webapp.studio.models import Session
from webapp.studio.services import create_session
from webapp.teams.models import User
from webapp.teams.queries import Visitor, first_team
from workers.artifacts import ArtifactMissing
from workers.workspace.layout import MODEL, PROBLEM_TOML


def text_of(user: Visitor, problem_id: str) -> dict[str, str]:
    """The fields of the form that bring up a problem of the user; none for any other id."""
    try:
        wanted = UUID(problem_id)
    except ValueError:
        return {}
    problem = visible_to(user).filter(pk=wanted).first()
    if problem is None:
        return {}
    try:
        files = files_of(problem)
    except ArtifactMissing:
        return {}
    given = {"title": problem.title, "model": files[MODEL].decode()}
    return {**given, "spec": files.get(PROBLEM_TOML, b"").decode()}


def check_again(user: User, problem: Problem) -> Problem:
    """Have a refused problem looked at again, as uploading its files again would. Raises `UserError`."""
    try:
        files = files_of(problem)
    except ArtifactMissing as error:
        raise UserError("Its files are gone from the store: upload them again.") from error
    return upload_problem(problem.team, user, files, problem.title)


def upload_from_form(
    user: User, form: UploadForm, tell: Callable[[str], object]
) -> Problem | Session | None:
    """Upload and, if wished, start a session; None when the form has got an error to show instead.

    `tell` is given a sentence for the next page, where there is something to say.
    """
    began = timezone.now()
    team = first_team(user)
    if team is None:
        form.show(UserError("You are in no team yet: ask an administrator to add you to one."))
        return None
    try:
        with transaction.atomic():
            problem = upload_problem(team, user, form.upload_files(), form.title_given)
            made = create_session(user, problem) if form.wants_session else problem
    except UserError as error:
        form.show(error)
        return None
    if problem.created_at < began:
        tell(f"Your team has uploaded these very files before, as “{problem.title}”.")
    return made
