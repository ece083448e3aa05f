"""Pages under /evaluations/: verdicts."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "evaluations"

urlpatterns: list[URLPattern] = []
