"""Pages under /evaluations/: verdicts. They live above the app evaluations, because they name the session."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "evaluations"

urlpatterns: list[URLPattern] = []
