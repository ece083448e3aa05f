"""The app's name for Django."""

from __future__ import annotations

from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "webapp.evaluations"
    label = "evaluations"
