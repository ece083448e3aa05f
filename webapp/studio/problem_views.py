"""Pages of problems: the list, the upload, one problem with its sessions."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.common.errors import UserError
from webapp.problems.examples import examples
from webapp.problems.forms import UploadForm
from webapp.problems.queries import visible_to
from webapp.problems.upload import MAX_PROBLEM_FILE_BYTES
from webapp.studio.page_queries import problem_list, problem_rows
from webapp.studio.presentation import problem_page
from webapp.studio.services import create_session
from webapp.studio.uploading import check_again, text_of, upload_from_form
from webapp.teams.people import signed_in

ROWS_PER_PAGE = 50


@require_safe
@login_required
@never_cache
def problems(request: HttpRequest) -> HttpResponse:
    """All problems of the person's teams."""
    page = Paginator(problem_list(request.user), ROWS_PER_PAGE).get_page(request.GET.get("page"))
    rows = problem_rows(list(page))
    waiting = any(row.live_session or row.problem.state == "checking" for row in rows)
    context = {"page": page, "rows": rows, "waiting": waiting, "here": "problems"}
    return render(request, "problems/list.html", context)


@login_required
def new_problem(request: HttpRequest) -> HttpResponse:
    """The upload form. With "optimise at once" it leads straight to the live page.

    `?from=ID` fills it with the files of a problem, so that they can be changed.
    """
    initial = {"optimise": True, **text_of(request.user, request.GET.get("from", ""))}
    form = UploadForm(request.POST or None, request.FILES or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        made = upload_from_form(signed_in(request), form, partial(messages.info, request))
        if made is not None:
            return redirect(made)
    shown = examples()
    context = {
        "form": form,
        "examples": shown,
        "example_data": [{"model": e.model, "spec": e.spec, "title": ""} for e in shown],
        "file_limit": MAX_PROBLEM_FILE_BYTES,
        "here": "new_problem",
    }
    return render(request, "problems/new.html", context)


@require_safe
@login_required
@never_cache
def problem(request: HttpRequest, problem_id: UUID) -> HttpResponse:
    """One problem: state, source, graph, sessions."""
    found = get_object_or_404(visible_to(request.user), pk=problem_id)
    context = {"page": problem_page(found), "here": "problems"}
    return render(request, "problems/detail.html", context)


@require_POST
@login_required
def check(request: HttpRequest, problem_id: UUID) -> HttpResponse:
    """Have a refused problem looked at again, as uploading the same files again would."""
    found = get_object_or_404(visible_to(request.user), pk=problem_id)
    try:
        check_again(signed_in(request), found)
    except UserError as error:
        messages.info(request, error.sentence)
    return redirect(found)


@require_POST
@login_required
def optimise(request: HttpRequest, problem_id: UUID) -> HttpResponse:
    """Start a session of the built-in author."""
    found = get_object_or_404(visible_to(request.user), pk=problem_id)
    try:
        session = create_session(signed_in(request), found)
    except UserError as error:
        context = {"page": problem_page(found), "error": error.sentence, "here": "problems"}
        return render(request, "problems/detail.html", context, status=409)
    return redirect(session)
