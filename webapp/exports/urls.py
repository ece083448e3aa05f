"""Downloads under /sessions/."""

from __future__ import annotations

from django.urls import path

from webapp.exports import views

app_name = "exports"

urlpatterns = [path("<uuid:session_id>/source.zip", views.source, name="source")]
