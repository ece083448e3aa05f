"""What a sandboxed process may use."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.sandbox import Limits, Profile, spawn
from workers.sandbox.interpreters import python_profile_paths

MIB = 1 << 20


BOMB = """
import os, time
try:
    for made in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
except BlockingIOError:
    print("stopped at", made, flush=True)
"""


def test_a_fork_bomb_is_bounded(kind, profile):
    limits = dataclasses.replace(profile.limits, processes=24)
    python = Path(sys.executable)
    small = dataclasses.replace(profile, limits=limits, readable=python_profile_paths(python))
    argv = [str(python), "-I", "-S", "-c", BOMB]
    with spawn(small, argv, kind=kind, stdout=subprocess.PIPE) as process:
        assert process.wait(20).ok
        text = process.stdout.read().decode()
    assert text.startswith("stopped at")
    assert int(text.split()[-1]) <= 24
    assert process.pids() == []


def test_memory_is_bounded(shell, profile):
    answer = shell("head -c 600M /dev/zero | tail | wc -c", profile=profile)
    assert "629145600" not in answer.text


def test_memory_of_many_processes_is_bounded_together_where_a_cgroup_can_be_made(shell, profile):
    limited = dataclasses.replace(profile, limits=Limits(memory_bytes=96 * MIB, processes=32))
    answer = shell(
        "for i in 1 2 3 4; do (head -c 60M /dev/zero | tail -c 60M | sleep 2) & done; wait",
        profile=limited,
    )
    if not _memory_cgroup():
        pytest.skip("no memory cgroup can be made here")
    assert answer.ended.out_of_memory


def _memory_cgroup() -> bool:
    from workers.sandbox.cgroups import Cgroup

    group = Cgroup.create(64 * MIB, None)
    if group is None:
        return False
    group.remove()
    return True


def test_memory_folders_are_bounded(shell):
    answer = shell("head -c 20M /dev/zero > /tmp/big; stat -c %s /tmp/big")
    assert "No space left" in answer.text
    assert int(answer.text.split()[-1]) <= 8 * MIB


def test_one_file_is_bounded(shell, profile, tmp_path):
    limits = dataclasses.replace(profile.limits, file_bytes=MIB)
    limited = dataclasses.replace(profile, limits=limits)
    shell("head -c 4M /dev/zero > /tmp/big; stat -c %s /tmp/big", profile=limited)
    text = shell(
        "(head -c 4M /dev/zero > /tmp/big) 2>/dev/null; stat -c %s /tmp/big", profile=limited
    ).text
    assert int(text.split()[-1]) <= MIB


def test_processor_time_is_bounded(shell, profile):
    limited = dataclasses.replace(
        profile, limits=dataclasses.replace(profile.limits, cpu_seconds=1)
    )
    started = time.monotonic()
    answer = shell("while :; do :; done", profile=limited)
    assert not answer.ended.ok
    assert time.monotonic() - started < 15


def test_it_runs_on_the_processors_it_is_given(shell):
    one = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    assert shell("nproc", cpus=[one]).text.strip() == "1"
    assert os.sched_getaffinity(0) == before


def test_no_limit_is_needed(shell):
    assert shell("echo fine", profile=Profile("test", "agent")).text == "fine\n"
