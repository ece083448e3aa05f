"""Imports go down the storeys; a linter says so, and the words of the rules stay as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def test_imports_only_go_down_the_storeys():
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "package", ["workers.protocol", "workers.artifacts", "workers.sandbox", "workers.evaluation"]
)
def test_the_judge_needs_only_torch_and_the_standard_library(package: str):
    """Imported without site-packages, these packages must still come up."""
    code = f"import importlib; importlib.import_module({package!r})"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_what_runs_before_set_up_needs_only_the_standard_library():
    code = (
        "import launch.environment, launch.up, launch.demo, launch.checks, launch.bench, sys\n"
        "ours = ('webapp', 'workers', 'agent', 'rl')\n"
        "sys.exit(any(name.split('.')[0] in ours for name in sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_no_test_folder_is_a_package():
    """A `tests/agent/__init__.py` would hide the package `agent`."""
    assert list((REPOSITORY / "tests").rglob("__init__.py")) == []
