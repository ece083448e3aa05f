"""Reads settings from the environment and collects what is wrong with them.

Nothing is raised here: a wrong value falls back to its default and becomes a sentence in `problems`,
which the system check webapp.E001 shows, so that a start is refused with all mistakes at once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from workers.evaluation.config import WorkerConfig, config_from_environment


class Environment:
    """The WARPSMITH_ variables."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """A string; `NAME_FILE` names a file that holds it, as secrets are often mounted."""
        file = self.variables.get(f"{name}_FILE", "")
        if file:
            try:
                return Path(file).read_text().strip()
            except OSError as error:
                self.problems.append(f"{name}_FILE cannot be read: {error.strerror}")
        return self.variables.get(name, "") or default

    def flag(self, name: str) -> bool:
        """1 or 0; off when unset."""
        value = self.variables.get(name, "")
        if value not in ("", "0", "1"):
            self.problems.append(f"{name} is {value!r}; use 1 or 0")
        return value == "1"

    def names(self, name: str) -> list[str]:
        """A list, separated by commas."""
        return [part.strip() for part in self.variables.get(name, "").split(",") if part.strip()]

    def folder(self, name: str, default: Path) -> Path:
        """An absolute folder."""
        return Path(self.variables.get(name, "") or default).expanduser().resolve()

    def workers(self) -> WorkerConfig:
        """How this process opens sandboxes, as builder and judge do."""
        try:
            return config_from_environment(self.variables)
        except ValueError as error:
            self.problems.append(str(error))
            return config_from_environment({})

    def database(self, name: str, home: Path) -> dict[str, Any]:
        """Django's description of the database that `name` addresses; SQLite in `home` when unset."""
        url = self.text(name)
        parts = urlsplit(url)
        if not url:
            return _sqlite(home / "db.sqlite3")
        if parts.scheme == "sqlite":
            return _sqlite(Path(parts.path))
        if parts.scheme in ("postgres", "postgresql"):
            return _postgresql(url)
        self.problems.append(
            f"{name} starts with {parts.scheme!r}; write postgresql://user:password@host:5432/name or sqlite:///path"
        )
        return _sqlite(home / "db.sqlite3")


def _sqlite(path: Path) -> dict[str, Any]:
    """WAL lets readers go on beside the writer; IMMEDIATE makes writers queue instead of failing half-way."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": 0,
        # Tests of concurrent writers need a file; each test run has one of its own.
        "TEST": {"NAME": str(Path(tempfile.gettempdir(), f"warpsmith-test-{os.getpid()}.sqlite3"))},
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000;",
        },
    }


def _postgresql(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }
