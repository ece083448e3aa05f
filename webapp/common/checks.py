"""System checks: mistakes in the settings stop the start and name themselves.

webapp.E001  a WARPSMITH_ variable has a value that cannot be used
webapp.E002  TIME_ZONE is not UTC: Celery would shift the process's clock
webapp.E003  Redis cannot be addressed
webapp.E004  the run-time folder cannot be written
webapp.E005  the secret key is too short to sign anything with
webapp.W001  WARPSMITH_DEBUG is on although other hosts may come
webapp.W002  other hosts may come without HTTPS
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, run_checks  # noqa: A004 - Django's own name
from django.core.exceptions import ImproperlyConfigured

from workers.redis_url import problem_with

MIN_SECRET_CHARS = 32


def check_settings(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[CheckMessage]:
    """All checks of this module."""
    found: list[CheckMessage] = [
        Error(sentence, id="webapp.E001") for sentence in settings.SETTINGS_PROBLEMS
    ]
    if settings.TIME_ZONE != "UTC":
        found.append(Error("TIME_ZONE must be UTC", id="webapp.E002"))
    redis = problem_with(settings.REDIS_URL)
    if redis:
        found.append(Error(redis, id="webapp.E003"))
    found += [
        Error(
            f"{folder} cannot be written; set WARPSMITH_HOME to a folder of yours", id="webapp.E004"
        )
        for folder in (settings.HOME, settings.ARTIFACTS)
        if not _writable(folder)
    ]
    if len(settings.SECRET_KEY) < MIN_SECRET_CHARS:
        found.append(
            Error(
                f"WARPSMITH_SECRET_KEY needs at least {MIN_SECRET_CHARS} characters",
                id="webapp.E005",
            )
        )
    return found + _check_exposure()


def _check_exposure() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if settings.HOSTS and settings.DEBUG:
        found.append(
            Warning("WARPSMITH_DEBUG shows settings and code to other hosts", id="webapp.W001")
        )
    if settings.HOSTS and not settings.HTTPS:
        found.append(
            Warning(
                "WARPSMITH_HOSTS lets other hosts come without HTTPS: passwords travel in the clear; "
                "put a TLS proxy in front and set WARPSMITH_HTTPS=1",
                id="webapp.W002",
            )
        )
    return found


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or the folder itself in the nearest one that exists."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def refuse_to_start_with_errors() -> None:
    """For doors that run no checks by themselves, such as the ASGI server; raises `ImproperlyConfigured`."""
    errors = [str(message) for message in run_checks() if message.is_serious()]
    if errors:
        raise ImproperlyConfigured("\n".join(errors))
