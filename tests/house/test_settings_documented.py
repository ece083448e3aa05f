"""Every setting that the code reads stands in docs/settings.md, and nothing else stands there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.test_sizes import our_files

REPOSITORY = Path(__file__).resolve().parents[2]
SETTING = re.compile(r"\bWARPSMITH_[A-Z][A-Z0-9_]*\b")
PACKAGES = (
    "webapp",
    "agent",
    "workers",
    "rl",
    "launch",
    "manage.py",
    "docker",
    "docker-compose.yml",
)


def settings_of_the_code() -> set[str]:
    found: set[str] = set()
    for path in our_files(".py", ".yml", ".sh", ".conf"):
        if path.relative_to(REPOSITORY).parts[0] in PACKAGES:
            found |= set(SETTING.findall(path.read_text()))
    return {name.removesuffix("_FILE") for name in found}


def settings_of_the_document() -> set[str]:
    rows = (REPOSITORY / "docs" / "settings.md").read_text().splitlines()
    return {
        name for row in rows if row.startswith("|") for name in SETTING.findall(row.split("|")[1])
    }


def test_every_setting_is_documented():
    assert settings_of_the_code() - settings_of_the_document() == set()


def test_every_documented_setting_exists():
    assert settings_of_the_document() - settings_of_the_code() == set()


def test_the_environment_is_read_at_the_doors_only():
    doors = {
        "webapp/settings.py",
        "webapp/asgi.py",
        "webapp/celery_app.py",
        "workers/celery_app.py",
        "manage.py",
    }
    readers = []
    for path in our_files(".py"):
        name = str(path.relative_to(REPOSITORY))
        if name.startswith(("tests/", "launch/", "examples/")) or path.name == "__main__.py":
            continue
        if name not in doors and re.search(r"os\.environ\b|os\.getenv\b", path.read_text()):
            readers.append(name)
    assert readers == []
