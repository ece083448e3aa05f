"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularAPIView

from webapp.api import (
    schema,  # noqa: F401 - registers how tokens are described
    session_views,
    views,
)

app_name = "api"

urlpatterns = [
    path("problems", views.Problems.as_view(), name="problems"),
    path("problems/<uuid:pk>", views.OneProblem.as_view(), name="problem"),
    path("evaluations/<uuid:pk>", views.OneEvaluation.as_view(), name="evaluation"),
    path("sessions", session_views.Sessions.as_view(), name="sessions"),
    path("sessions/<uuid:pk>", session_views.OneSession.as_view(), name="session"),
    path("sessions/<uuid:pk>/events", session_views.SessionEvents.as_view(), name="events"),
    path("sessions/<uuid:pk>/stop", session_views.StopSession.as_view(), name="stop"),
    path("sessions/<uuid:pk>/pause", session_views.PauseSession.as_view(), name="pause"),
    path("sessions/<uuid:pk>/resume", session_views.ResumeSession.as_view(), name="resume"),
    path("sessions/<uuid:pk>/source.zip", session_views.SessionSource.as_view(), name="source"),
    path("tokens", views.Tokens.as_view(), name="tokens"),
    path("tokens/<uuid:pk>", views.OneToken.as_view(), name="token"),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
]
