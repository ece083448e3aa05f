"""Pages under /evaluations/: verdicts. They live above the app evaluations, because they name the session."""

from __future__ import annotations

from django.urls import path

from webapp.studio import verdict_views as views

app_name = "evaluations"

urlpatterns = [path("<uuid:evaluation_id>/", views.verdict, name="detail")]
