"""Whatever is uploaded: the judge says one clear sentence or takes it, and nothing stays behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.runner.uploads import UPLOADS, Upload, model
from workers.artifacts import FolderStore, put_files
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.protocol.problem import Stage
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Evaluation, Status

RUNNER = "workers.device.runner"
"""In the command line of every process in which the upload's code was; a judge stands by for the next one."""


class Judge:
    """Looks at problems alone."""

    def __init__(self, folder: Path) -> None:
        config = WorkerConfig(folder / "artifacts", folder / "cache", Path(sys.executable))
        self.store = FolderStore(config.artifacts)
        self.supervisor = DeviceSupervisor(config, self.store)
        assert not self.supervisor.problem, self.supervisor.problem

    def look_at(self, files: dict[str, bytes], *stages: Stage) -> Evaluation:
        problem = put_files(self.store, files)
        return self.supervisor.run(EvaluateRequest(problem, "", stages or (Stage.INSPECT,)))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    made = Judge(tmp_path_factory.mktemp("uploads"))
    yield made
    made.supervisor.close()


def at_work() -> set[int]:
    """Runners, and what they have started, that descend from this process."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        if fields[0] != "Z" and RUNNER in command:
            found.add(int(entry.name))
    return {pid for pid in found if os.getpid() in _ancestors(pid, parents)}


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
    return seen


@pytest.mark.parametrize(
    "upload",
    [
        pytest.param(upload, id=name, marks=[pytest.mark.slow] if upload.slow else [])
        for name, upload in UPLOADS.items()
    ],
)
def test_the_judge_says_what_is_wrong_or_takes_it(judge: Judge, upload: Upload) -> None:
    before = at_work()
    evaluation = judge.look_at({"model.py": upload.content})
    assert evaluation.status is upload.status, evaluation.summary
    assert upload.says in evaluation.summary
    assert evaluation.summary.isprintable()
    assert len(evaluation.summary) < 800
    assert (evaluation.inspection is not None) == (upload.status is Status.PASSED)
    end = time.monotonic() + 10
    while at_work() - before and time.monotonic() < end:
        time.sleep(0.05)
    assert at_work() - before == set()


def test_it_refuses_more_threads_than_the_device_has(judge: Judge) -> None:
    cores = len(os.sched_getaffinity(0))
    files = {"model.py": model().encode(), "problem.toml": f"threads = {cores + 1}".encode()}
    evaluation = judge.look_at(files)
    assert evaluation.status is Status.REJECTED
    assert f"asks for {cores + 1} threads, but this device has {cores} core" in evaluation.summary
    assert f"ask for at most {cores}." in evaluation.summary


def test_what_a_file_sets_for_torch_is_set_back_before_it_is_timed(judge: Judge) -> None:
    """A model that tells its own mode and threads: the sandboxed process is asked, not this one."""
    source = model(
        "import torch\ntorch.set_num_threads(7)\ntorch.set_grad_enabled(True)",
        forward="return x * (torch.get_num_threads() + 100 * torch.is_grad_enabled() - 1)",
    )
    evaluation = judge.look_at({"model.py": source.encode()})
    assert evaluation.status is Status.REJECTED
    assert "does not depend on the inputs" in evaluation.summary  # one thread, no gradients: zero
