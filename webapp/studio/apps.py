"""The app's name for Django."""

from __future__ import annotations

from django.apps import AppConfig


class StudioConfig(AppConfig):
    name = "webapp.studio"
    label = "studio"
