"""The judge on this machine, without a site: what the terminal and the tests use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from agent.evaluator import Judged
from workers.artifacts import ArtifactStore, put_files
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.run import evaluate
from workers.protocol.problem import ProblemSpec, Stage
from workers.protocol.requests import EvaluateRequest


class LocalEvaluator:
    """Builds and judges here, one request at a time; `close` ends the processes that stand by."""

    def __init__(
        self,
        problem: Mapping[str, bytes],
        spec: ProblemSpec,
        store: ArtifactStore,
        config: WorkerConfig,
    ) -> None:
        self._problem = put_files(store, problem)
        self._spec = spec
        self._store = store
        self._config = config
        self._supervisor = DeviceSupervisor(config, store)

    async def inspect(self) -> Judged:
        """See `agent.evaluator.Evaluator`."""
        return await self._run("", (Stage.INSPECT,))

    async def evaluate(self, files: Mapping[str, bytes], stages: tuple[Stage, ...]) -> Judged:
        """See `agent.evaluator.Evaluator`."""
        return await self._run(put_files(self._store, files), stages)

    def close(self) -> None:
        """End what stands by; waits for a judgement that is under way."""
        self._supervisor.close()

    async def _run(self, snapshot: str, stages: tuple[Stage, ...]) -> Judged:
        request = EvaluateRequest(
            problem=self._problem,
            snapshot=snapshot,
            stages=stages,
            target=self._spec.target,
            precision=self._spec.precision,
        )
        # Judging blocks for seconds: a thread of its own keeps the loop free for listeners.
        evaluation = await asyncio.to_thread(
            evaluate, request, self._store, self._config, self._supervisor
        )
        library = evaluation.artifacts.get("library")
        return Judged(evaluation, library=partial(self._store.get, library) if library else None)
