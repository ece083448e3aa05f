"""The event log in the admin."""

from __future__ import annotations

from django.contrib import admin

from webapp.common.admin import ReadOnlyAdmin
from webapp.events.models import LogEntry


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    list_display = ("stream_id", "seq", "kind", "at")
    list_filter = ("kind",)
    search_fields = ("stream__id",)
    show_full_result_count = False
