"""Problems in the admin."""

from __future__ import annotations

from django.contrib import admin

from webapp.common.admin import ReadOnlyAdmin
from webapp.problems.models import Problem


@admin.register(Problem)
class ProblemAdmin(ReadOnlyAdmin):
    list_display = ("title", "team", "target", "state", "creator", "created_at")
    list_filter = ("state", "target", "team")
    search_fields = ("title", "digest", "slug")
    list_select_related = ("team", "creator")
