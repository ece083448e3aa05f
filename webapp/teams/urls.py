"""Pages under /accounts/: signing in and out, one-time links."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "teams"

urlpatterns: list[URLPattern] = []
