"""Registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks

from webapp.common.checks import check_settings


class CommonConfig(AppConfig):
    name = "webapp.common"
    label = "common"

    def ready(self) -> None:
        checks.register(check_settings)
