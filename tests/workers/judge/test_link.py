"""A standing runner: what it may do meanwhile, which is next to nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from workers.device.judge.link import AWAKE_NS, RunnerFailure, RunnerLink
from workers.protocol.wire import Channel


@pytest.fixture
def standing() -> Iterator[RunnerLink]:
    """A process that would always compute, stopped."""
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            time.sleep(0.3)
            link = RunnerLink("candidate", Channel(ours), pid=child.pid)
            link.freeze()
            yield link
        finally:
            child.kill()


def nap(pid: int, seconds: float) -> None:
    """Let it run although the link takes it for standing."""
    os.kill(pid, signal.SIGCONT)
    time.sleep(seconds)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.01)


def test_it_stands_for_as_long_as_it_is_left_alone(standing: RunnerLink) -> None:
    for _ in range(20):
        time.sleep(0.002)
        standing.thaw()
        standing.freeze()
    assert standing.strayed_ns < AWAKE_NS


def test_waking_up_is_noticed(standing: RunnerLink) -> None:
    nap(standing.pid, 0.05)
    with pytest.raises(RunnerFailure) as failure:
        standing.thaw()
    assert failure.value.kind == "awake"


def nap_on(link: RunnerLink, times: int) -> None:
    for _ in range(times):
        nap(link.pid, 0.0001)
        link.thaw()
        link.freeze()


def test_short_naps_add_up(standing: RunnerLink) -> None:
    with pytest.raises(RunnerFailure) as failure:
        nap_on(standing, 500)
    assert failure.value.kind == "awake"


def test_the_end_of_one_that_was_killed_is_not_taken_for_waking_up() -> None:
    """Giving its memory back costs a process more CPU time than it may use while it stands."""
    ours, theirs = socket.socketpair()
    code = "held = bytearray(400 << 20)\nfor i in range(0, len(held), 4096): held[i] = 1\nprint()\nwhile True: pass"
    with (
        ours,
        theirs,
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child,
    ):
        assert child.stdout is not None
        assert child.stdout.readline()
        link = RunnerLink("candidate", Channel(ours), pid=child.pid)
        link.freeze()
        child.send_signal(signal.SIGKILL)
        time.sleep(0.01)
        with pytest.raises(RunnerFailure) as failure:
            link.thaw()
        assert failure.value.kind == "gone"
