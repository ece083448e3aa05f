"""A loaded machine makes an honest kernel unmeasured at worst, never wrong or rejected."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from workers.evaluation.device import timing_cores
from workers.protocol.verdict import Status

ORDINARY = "while True: pass"
# Before the judge's own runners, for 6 of every 10 ms: nothing that the judge may do keeps it away.
URGENT = """\
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while True:
    end = time.monotonic() + 0.006
    while time.monotonic() < end:
        pass
    time.sleep(0.004)
"""
LONGEST_S = 120


@contextlib.contextmanager
def load(program: str, count: int) -> Iterator[None]:
    """Busy processes on the timing core, which end by themselves if nobody ends them."""
    (core,) = timing_cores(1)
    guard = f"import os, signal\nsignal.alarm({LONGEST_S})\nos.sched_setaffinity(0, {{{core}}})\n"
    busy = [
        subprocess.Popen([sys.executable, "-c", guard + program], stderr=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "program",
    [
        ORDINARY,
        pytest.param(
            URGENT,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root may go before others"),
        ),
    ],
    ids=["ordinary", "urgent"],
)
def test_an_honest_kernel_is_unmeasured_at_worst(workshop: Any, program: str) -> None:
    with load(program, 1 if program is URGENT else 3):
        evaluation = workshop.judge({})
    assert evaluation.status in (Status.PASSED, Status.UNMEASURED), evaluation.summary
    if evaluation.status is Status.UNMEASURED:
        assert "too busy" in evaluation.summary
        assert evaluation.timing is None
