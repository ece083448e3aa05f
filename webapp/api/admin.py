"""API tokens in the admin: seen and revoked, never made."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.api.models import ApiToken
from webapp.api.tokens import revoke_token
from webapp.common.admin import ReadOnlyAdmin


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "hint",
        "user",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("user",)
    list_select_related = ("user",)
    exclude = ("token_hash",)
    actions: ClassVar = ["revoke"]

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiToken]) -> None:
        for token in rows.select_related("user"):
            revoke_token(token.user, token.pk)
