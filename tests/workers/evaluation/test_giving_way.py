"""Work that nobody waits for leaves the device as soon as somebody does; a stopped worker leaves it too."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from launch.children import descendants
from workers.artifacts import FolderStore, put_files
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.device_lock import DeviceBusy, GivenBack, device_lock, foreground, wanted
from workers.protocol.problem import Stage
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Evaluation, Status

MODEL = b"""
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def locks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other judges of this machine neither hold these tests up nor are held up by them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def hold_for_ever(what: Callable[[str], AbstractContextManager[None]], folder: str, there) -> None:
    import tempfile

    tempfile.tempdir = folder
    with what("cpu"):
        there.set()
        time.sleep(60)


def in_another_process(what: Callable[[str], AbstractContextManager[None]], folder: Path):
    context = multiprocessing.get_context("fork")
    there = context.Event()
    process = context.Process(target=hold_for_ever, args=(what, str(folder), there), daemon=True)
    process.start()
    assert there.wait(10)
    return process


def lock_at_once(device: str) -> AbstractContextManager[None]:
    return device_lock(device, 0.0)


def test_a_device_is_wanted_while_somebody_says_so_in_any_process(tmp_path):
    assert not wanted("cpu")
    process = in_another_process(foreground, tmp_path)
    assert wanted("cpu")
    assert not wanted("another")
    process.kill()
    process.join(10)
    assert not wanted("cpu")
    with foreground("cpu"), foreground("cpu"):
        assert wanted("cpu")
    assert not wanted("cpu")


def test_two_who_ask_at_once_do_not_take_each_other_for_somebody_who_waits():
    seen = []

    def ask() -> None:
        seen.extend(wanted("cpu") for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.count(True) == 0


def test_who_waits_for_the_device_can_be_told_to_leave(tmp_path):
    process = in_another_process(lock_at_once, tmp_path)
    reasons = iter(["", "", "Enough."])
    with pytest.raises(GivenBack, match="Enough"), device_lock("cpu", 30.0, lambda: next(reasons)):
        pytest.fail("the device was taken")
    with pytest.raises(DeviceBusy), device_lock("cpu", 0.1):
        pytest.fail("the device was taken")
    process.kill()
    process.join(10)
    with device_lock("cpu", 5.0):
        pass


class Workshop:
    def __init__(self, folder: Path) -> None:
        config = WorkerConfig(folder / "artifacts", folder / "cache", Path(sys.executable))
        self.store = FolderStore(config.artifacts)
        self.supervisor = DeviceSupervisor(config, self.store)
        self.problem = put_files(self.store, {"model.py": MODEL})
        self.thread = ThreadPoolExecutor(1)

    def begin_baseline(self) -> Future[Evaluation]:
        request = EvaluateRequest(self.problem, "", (Stage.BASELINE,))
        started = self.thread.submit(self.supervisor.run, request, gives_way=True)
        time.sleep(3)
        assert not started.done()
        return started

    def inspect(self) -> Evaluation:
        return self.supervisor.run(EvaluateRequest(self.problem, "", (Stage.INSPECT,)))


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    before = set(descendants())
    assert not made.supervisor.problem, made.supervisor.problem
    made.supervisor.warm()
    yield made
    made.supervisor.close()
    made.thread.shutdown()
    assert set(descendants()) - before == set()


@pytest.mark.slow
def test_a_check_does_not_wait_for_torch_compile(workshop):
    baseline = workshop.begin_baseline()
    asked = time.monotonic()
    checked: list[Evaluation] = []
    check = threading.Thread(target=lambda: checked.append(workshop.inspect()))
    check.start()
    with pytest.raises(GivenBack, match="Somebody waits for the device"):
        baseline.result(timeout=20)
    assert time.monotonic() - asked < 3
    check.join(60)
    assert checked[0].status is Status.PASSED


@pytest.mark.slow
def test_work_in_another_process_comes_first_too(workshop, tmp_path):
    baseline = workshop.begin_baseline()
    process = in_another_process(foreground, tmp_path)
    with pytest.raises(GivenBack, match="Somebody waits for the device"):
        baseline.result(timeout=20)
    process.kill()
    process.join(10)


@pytest.mark.slow
def test_an_interrupted_worker_gives_its_job_back_at_once(workshop):
    baseline = workshop.begin_baseline()
    workshop.supervisor.interrupt()
    with pytest.raises(GivenBack, match="asked to stop"):
        baseline.result(timeout=20)
    with pytest.raises(GivenBack, match="asked to stop"):
        workshop.inspect()
