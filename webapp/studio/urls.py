"""Pages under /sessions/: the live session and its downloads."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "studio"

urlpatterns: list[URLPattern] = []
