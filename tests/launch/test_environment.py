"""A finished set-up is recognised in a moment; an unfinished or outdated one is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch import environment
from launch.environment import _covers, _read_stamp, _wanted, prepare
from launch.places import RUN_LOCK, VENV_PYTHON

REPOSITORY = Path(__file__).resolve().parents[2]


def stamp_for(wanted: dict[str, str], tmp_path: Path) -> dict[str, str]:
    (tmp_path / "torch").mkdir(exist_ok=True)
    return {**wanted, "torch": "2.13.0", "torch folder": str(tmp_path)}


def test_a_finished_set_up_covers_what_is_wanted(tmp_path: Path):
    assert VENV_PYTHON.exists()
    assert _covers(stamp_for(_wanted({}, dev=True), tmp_path), _wanted({}, dev=True))
    assert _covers(stamp_for(_wanted({}, dev=True), tmp_path), _wanted({}, dev=False))


def test_a_run_time_set_up_does_not_cover_development(tmp_path: Path):
    assert not _covers(stamp_for(_wanted({}, dev=False), tmp_path), _wanted({}, dev=True))


def test_a_changed_lock_file_asks_for_a_new_set_up(tmp_path: Path):
    stamp = stamp_for(_wanted({}, dev=False), tmp_path)
    stamp[RUN_LOCK.name] = "0" * 64
    assert not _covers(stamp, _wanted({}, dev=False))


def test_a_torch_that_went_away_asks_for_a_new_set_up(tmp_path: Path):
    stamp = stamp_for(_wanted({}, dev=False), tmp_path)
    (tmp_path / "torch").rmdir()
    assert not _covers(stamp, _wanted({}, dev=False))


def test_another_torch_that_is_asked_for_asks_for_a_new_set_up(tmp_path: Path):
    stamp = stamp_for(_wanted({}, dev=False), tmp_path)
    assert not _covers(stamp, _wanted({"WARPSMITH_TORCH": "torch==2.10.0"}, dev=False))


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_stamp_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str):
    (tmp_path / "stamp").write_text(text)
    monkeypatch.setattr(environment, "_STAMP", tmp_path / "stamp")
    assert _read_stamp() == {}


def test_a_finished_set_up_costs_less_than_half_a_second():
    """The cheapest of three, so that a busy machine does not fail it."""
    prepare(os.environ, dev=True)
    costs = []
    for _ in range(3):
        started = time.monotonic()
        command = [sys.executable, "-m", "launch", "setup-dev"]
        subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
        costs.append(time.monotonic() - started)
    assert min(costs) < 0.5
