"""Pages under / and /problems/. They live above the app problems, because they show sessions and verdicts."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "problems"

urlpatterns: list[URLPattern] = []
