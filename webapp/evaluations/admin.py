"""Verdicts and jobs in the admin."""

from __future__ import annotations

from django.contrib import admin

from webapp.common.admin import ReadOnlyAdmin
from webapp.evaluations.models import Baseline, Evaluation, Job


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("problem", "state", "status", "speedup_median", "tier", "created_at")
    list_filter = ("state", "status", "tier", "team")
    search_fields = ("id", "problem__title", "summary")
    list_select_related = ("problem",)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ("id", "kind", "queue", "state", "attempt", "hints", "worker", "created_at")
    list_filter = ("state", "kind", "queue", "background")
    search_fields = ("id", "evaluation__id", "worker")


@admin.register(Baseline)
class BaselineAdmin(ReadOnlyAdmin):
    list_display = ("problem", "ratio_median", "device_name", "torch_version", "precision")
    list_select_related = ("problem",)
