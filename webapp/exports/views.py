"""Downloads of a session's result."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from webapp.common.errors import UserError
from webapp.exports.services import source_zip
from webapp.studio.queries import visible_to


@require_safe
@login_required
def source(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The source zip of the best kernels, or one sentence why there is none."""
    session = get_object_or_404(visible_to(request.user), pk=session_id)
    try:
        name, content = source_zip(session)
    except UserError as error:
        context = {"session": session, "sentence": error.sentence, "here": "problems"}
        return render(request, "exports/nothing.html", context, status=409)
    response = HttpResponse(content, content_type="application/zip")
    response.headers["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response.headers["Cache-Control"] = "private, no-cache"
    return response
