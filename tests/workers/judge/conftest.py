"""A builder and a warm judge on real sandboxes, shared by the tests of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from workers.artifacts import FolderStore
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.folders import read_folder
from workers.evaluation.run import evaluate, put_workspace
from workers.protocol.problem import Stage, Tier
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Evaluation

BASE = Path(__file__).resolve().parents[2] / "exploits" / "base"


class Workshop:
    """Judges the base workspace of tests/exploits with some files changed."""

    def __init__(self, folder: Path) -> None:
        self.config = WorkerConfig(folder / "artifacts", folder / "cache", Path(sys.executable))
        self.store = FolderStore(self.config.artifacts)
        self.supervisor = DeviceSupervisor(self.config, self.store)

    def judge(
        self,
        changes: Mapping[str, str],
        stages: tuple[Stage, ...] = (Stage.BUILD, Stage.VERIFY, Stage.TIME),
        tier: Tier = Tier.QUICK,
    ) -> Evaluation:
        """Evaluate; an empty text removes a file."""
        request = EvaluateRequest(*self.put(changes), stages, tier=tier)
        return evaluate(request, self.store, self.config, self.supervisor)

    def put(self, changes: Mapping[str, str]) -> tuple[str, str]:
        files = read_folder(BASE)
        for path, text in changes.items():
            if text:
                files[path] = text.encode()
            else:
                del files[path]
        return put_workspace(self.store, files)

    def inspect(self, model: str, stages: tuple[Stage, ...] = (Stage.INSPECT,)) -> Evaluation:
        problem, _ = self.put({"model.py": model})
        return self.supervisor.run(EvaluateRequest(problem, "", stages))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(tmp_path_factory.mktemp("workshop"))
    assert not made.supervisor.problem, made.supervisor.problem
    yield made
    made.supervisor.close()
