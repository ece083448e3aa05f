"""A process counts as gone when the kernel says so, and never before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.presence import FORGOTTEN_AFTER_S, Presence, forget_old, is_gone, name_of_this_process

REPOSITORY = Path(__file__).resolve().parents[2]

PRESENT = """
import subprocess, sys, time
from pathlib import Path
from workers.presence import Presence
presence = Presence(Path(sys.argv[1]), sys.argv[2])
subprocess.Popen(["sleep", "30"])
print("there", flush=True)
time.sleep(30)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is present as `other`, with a child of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRESENT, str(tmp_path), "other"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()


def test_a_process_that_was_killed_is_gone_at_once_though_its_children_live(tmp_path, other):
    assert not is_gone(tmp_path, "other")
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(tmp_path, "other")


def test_a_process_that_stands_still_is_not_gone(tmp_path, other):
    os.kill(other.pid, signal.SIGSTOP)
    time.sleep(0.2)
    assert not is_gone(tmp_path, "other")


def test_asking_does_not_take_the_lock(tmp_path):
    presence = Presence(tmp_path, "me")
    for _ in range(3):
        assert not is_gone(tmp_path, "me")
    presence.leave()


def test_of_one_that_left_nothing_is_known(tmp_path):
    Presence(tmp_path, "me").leave()
    assert not is_gone(tmp_path, "me")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../etc/passwd", "a/b", ".", "..", "nobody", "x" * 300])
def test_of_names_that_are_none_nothing_is_known(tmp_path, name):
    assert not is_gone(tmp_path, name)


def test_a_lock_of_another_boot_or_host_proves_nothing(tmp_path):
    (tmp_path / "elsewhere").write_text("00000000-0000-0000-0000-000000000000")
    (tmp_path / "silent").write_text("")
    assert not is_gone(tmp_path, "elsewhere")
    assert not is_gone(tmp_path, "silent")


def test_names_are_never_used_twice():
    names = {name_of_this_process() for _ in range(100)}
    assert len(names) == 100
    assert all(f"-{os.getpid()}-" in name for name in names)


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path):
    (tmp_path / "file").write_text("")
    presence = Presence(tmp_path / "file" / "alive", "me")
    presence.leave()


def test_only_what_was_left_long_ago_is_forgotten(tmp_path, other):
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    presence = Presence(tmp_path, "me")
    forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["me", "other"]
    old = time.time() - FORGOTTEN_AFTER_S - 1
    for path in tmp_path.iterdir():
        os.utime(path, (old, old))
    forget_old(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["me"]
    presence.leave()
