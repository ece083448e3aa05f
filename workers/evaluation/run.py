"""One evaluation from start to end in one call: build, then judge. The command line and tests use it."""

from __future__ import annotations

from collections.abc import Mapping

from workers.artifacts import ArtifactStore, put_files
from workers.evaluation.build import build as build_snapshot
from workers.evaluation.config import WorkerConfig
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.verdicts import from_build, with_build
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildStatus, EvaluateRequest
from workers.protocol.verdict import Evaluation
from workers.workspace.layout import PROBLEM_FILES, snapshot_files


def evaluate(
    request: EvaluateRequest,
    store: ArtifactStore,
    config: WorkerConfig,
    supervisor: DeviceSupervisor | None = None,
) -> Evaluation:
    """Run all stages of a request here. Without `supervisor` one is made and closed again."""
    if not request.snapshot:
        return _on_device(request, store, config, supervisor, None)
    own = DeviceSupervisor(config, store) if supervisor is None else None
    device = supervisor or own
    assert device is not None
    try:
        if set(request.stages) != {Stage.BUILD}:
            device.warm()  # imports torch while the compiler works
        build = build_snapshot(request, store, config)
        if build.status is not BuildStatus.BUILT or set(request.stages) == {Stage.BUILD}:
            return from_build(request, build)
        return with_build(device.run(request, build), build)
    finally:
        if own is not None:
            own.close()


def put_workspace(store: ArtifactStore, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Store a workspace's files as problem and snapshot; returns both digests."""
    problem = {path: files[path] for path in PROBLEM_FILES if path in files}
    return put_files(store, problem), put_files(store, snapshot_files(files))


def _on_device(
    request: EvaluateRequest,
    store: ArtifactStore,
    config: WorkerConfig,
    supervisor: DeviceSupervisor | None,
    build: None,
) -> Evaluation:
    if supervisor is not None:
        return supervisor.run(request, build)
    own = DeviceSupervisor(config, store)
    try:
        return own.run(request, build)
    finally:
        own.close()
