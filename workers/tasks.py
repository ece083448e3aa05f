"""The tasks of builder and device worker: unpack, one call, leave the answer, say where it lies.

No database and no Django here. The same hint may come twice: an answer that lies in the store already
is only reported again.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from celery.signals import worker_init, worker_shutdown

from workers.artifacts import ArtifactStore, FolderStore
from workers.capabilities import announce
from workers.celery_app import BUILD_QUEUE, app, worker_config
from workers.evaluation.build import build as build_snapshot
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.verdicts import infrastructure
from workers.protocol.codec import from_json, to_json
from workers.protocol.requests import BuildResult, BuildStatus, JobMessage
from workers.pulse import pulsing, tell_answer

logger = logging.getLogger(__name__)

Work = Callable[[JobMessage, ArtifactStore], object]


@functools.cache
def supervisor() -> DeviceSupervisor:
    """The one supervisor of this process."""
    config = worker_config()
    return DeviceSupervisor(config, FolderStore(config.artifacts))


@worker_init.connect  # type: ignore[untyped-decorator]
def warm_up(sender: Any, **_kwargs: Any) -> None:
    """A device worker takes jobs only when its runners have torch in memory."""
    measured = sorted(set(sender.app.amqp.queues.consume_from) - {BUILD_QUEUE})
    if measured:
        name = " ".join((socket.gethostname(), *measured))
        announce(supervisor().store, supervisor().capabilities(name, measured))
        supervisor().warm()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def close(**_kwargs: Any) -> None:
    """Leave no process behind."""
    if supervisor.cache_info().currsize:
        supervisor().close()


@app.task(name="workers.tasks.build")  # type: ignore[untyped-decorator]
def build(text: str) -> None:
    """Compile a snapshot."""

    def work(message: JobMessage, store: ArtifactStore) -> object:
        return build_snapshot(message.request, store, worker_config())

    def failed(_message: JobMessage, why: str) -> object:
        return BuildResult(BuildStatus.INFRASTRUCTURE, why)

    _answer(from_json(JobMessage, text), work, failed)


@app.task(name="workers.tasks.measure")  # type: ignore[untyped-decorator]
def measure(text: str) -> None:
    """Verify and time a build, or look at a problem alone."""

    def work(message: JobMessage, _store: ArtifactStore) -> object:
        return supervisor().run(message.request, message.build)

    def failed(message: JobMessage, why: str) -> object:
        return infrastructure(message.request, why)

    _answer(from_json(JobMessage, text), work, failed)


def _answer(message: JobMessage, work: Work, failed: Callable[[JobMessage, str], object]) -> None:
    store = FolderStore(worker_config().artifacts)
    worker = f"{socket.gethostname()}-{os.getpid()}"
    digest = store.get_ref(message.result_key)
    if digest is None:
        with pulsing(app, message, worker):
            try:
                result = work(message, store)
            except Exception as error:
                logger.exception("job %s failed on our side", message.job)
                result = failed(message, f"The worker failed: {type(error).__name__}: {error}")
            digest = store.put(to_json(result))
            store.put_ref(message.result_key, digest)
    tell_answer(app, message, digest, worker)
