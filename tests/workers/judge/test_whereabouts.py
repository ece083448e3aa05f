"""Whose code a stopped process is in, and when that is too much."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from workers.device.judge import processes
from workers.device.judge.whereabouts import Whereabouts, counters


def seen(**samples: int) -> Whereabouts:
    return Whereabouts(b"", Counter(samples), Counter({"libtorch_cpu.so": samples["foreign"]}))


def test_kernels_that_compute_may_have_a_little_of_torch_around_them() -> None:
    assert seen(kernels=95, foreign=5).complaint([]) == ""
    assert "libtorch_cpu.so" in seen(kernels=50, foreign=50).complaint([])


def test_who_admits_to_copies_may_spend_time_with_them_but_not_all() -> None:
    assert seen(kernels=30, foreign=70).complaint(["aten::copy_"]) == ""
    assert seen(kernels=3, foreign=97).complaint(["aten::copy_"]) != ""
    assert seen(kernels=30, foreign=70).complaint(["aten::gelu"]) != ""


@pytest.mark.parametrize("samples", [{"foreign": 10}, {"foreign": 10, "host": 500}])
def test_a_few_samples_say_nothing(samples: dict[str, int]) -> None:
    assert seen(**samples).complaint([]) == ""


def test_a_stopped_process_tells_where_it_computes() -> None:
    program = "while True: sum(range(1000))"
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        try:
            time.sleep(0.5)
            found = []
            for _ in range(10):
                processes.freeze(child.pid)
                found += counters(child.pid)
                processes.thaw(child.pid)
                time.sleep(0.01)
        finally:
            child.kill()
    assert len(found) >= 5
    assert all(counter > 1 << 16 for counter in found)


def test_a_waiting_thread_is_not_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            time.sleep(0.5)
            processes.freeze(child.pid)
            assert counters(child.pid) == []
        finally:
            child.kill()
    assert counters(os.getpid()) == []
