"""Pages of sessions: the live page, its files, the stop button."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.common.errors import UserError
from webapp.studio.page_queries import snapshot_event
from webapp.studio.presentation import live_page, stored_files
from webapp.studio.queries import visible_to
from webapp.studio.services import stop_session
from webapp.studio.timeline import changed_paths
from webapp.teams.people import signed_in


@require_GET
@login_required
@never_cache
def session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The live page; it shows all that has happened so far without a script."""
    found = get_object_or_404(visible_to(request.user), pk=session_id)
    context = {"page": live_page(found), "here": "problems"}
    return render(request, "studio/session.html", context)


@require_GET
@login_required
def files(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The files of one snapshot of the session, as a piece of HTML for the live page.

    A snapshot is announced a moment before its files are stored; until then the answer is empty (204).
    """
    found = get_object_or_404(visible_to(request.user), pk=session_id)
    event = snapshot_event(found, request.GET.get("snapshot", ""))
    views = stored_files(str(event.body["digest"]), changed_paths(event))
    if not views:
        return HttpResponse(status=204)
    response = render(request, "_files.html", {"files": views})
    response.headers["Cache-Control"] = "private, max-age=3600"
    return response


@require_POST
@login_required
def stop(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Ask the session to stop; the live page shows when it has."""
    found = get_object_or_404(visible_to(request.user), pk=session_id)
    try:
        stop_session(signed_in(request), found)
    except UserError as error:
        messages.info(request, error.sentence)
    return redirect(found)
