"""The page of a verdict."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.evaluations.queries import visible_to
from webapp.studio.presentation import verdict_page


@require_safe
@login_required
@never_cache
def verdict(request: HttpRequest, evaluation_id: UUID) -> HttpResponse:
    """What the judge found, with the raw numbers behind it."""
    found = get_object_or_404(visible_to(request.user), pk=evaluation_id)
    context = {"page": verdict_page(found), "here": "problems"}
    return render(request, "evaluations/detail.html", context)
