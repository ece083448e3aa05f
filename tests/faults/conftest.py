"""A site that lives through a module's tests, whatever they kill."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.own_site import own_site
from tests.faults.living_site import MODEL, LivingSite, below


def environment(home: str) -> dict[str, str]:
    """Device locks of its own: other judges of this machine do not hold these tests up."""
    return {**os.environ, "TMPDIR": home}


@pytest.fixture(scope="module")
def site() -> Iterator[LivingSite]:
    # A short path, because that of a socket must be.
    with tempfile.TemporaryDirectory(prefix="ws-") as folder:
        with own_site(Path(folder), environment(folder)) as own:
            living = LivingSite.of(own)
            yield living
            left = below(own.pid)
        assert [process for process in left if process.alive] == []


@pytest.fixture(scope="module")
def problem(site: LivingSite) -> str:
    return site.upload("Relu", {"model.py": MODEL})
