"""Every change of a model comes with its migration, named by hand."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from django.core.management import call_command

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.django_db
def test_no_migration_is_missing():
    out = io.StringIO()
    try:
        call_command("makemigrations", "--check", "--dry-run", stdout=out)
    except SystemExit:
        pytest.fail(f"a migration is missing:\n{out.getvalue()}")


def test_migrations_are_named_by_hand():
    names = [path.stem for path in REPOSITORY.glob("webapp/*/migrations/[0-9]*.py")]
    assert names
    assert [name for name in names if re.search(r"_auto_\d|_initial_\d", name)] == []
