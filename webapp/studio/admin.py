"""Sessions in the admin."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.common.admin import ReadOnlyAdmin
from webapp.common.errors import UserError
from webapp.studio.models import Session, Turn
from webapp.studio.services import stop_as_admin


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ("problem", "author", "state", "turn_count", "host", "created_at")
    list_filter = ("state", "author", "team")
    search_fields = ("id", "problem__title")
    list_select_related = ("problem",)
    actions: ClassVar = ["stop"]

    @admin.action(description="Stop")
    def stop(self, request: HttpRequest, rows: QuerySet[Session]) -> None:
        for session in rows:
            try:
                stop_as_admin(request.user.get_username(), session)
            except UserError as error:
                self.message_user(request, f"{session}: {error.sentence}", messages.WARNING)


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin):
    list_display = ("session", "number", "created_at")
    search_fields = ("session__id",)
    list_select_related = ("session__problem",)
