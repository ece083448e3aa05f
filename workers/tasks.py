"""The tasks of builder and device worker: unpack, one call, leave the answer, say where it lies.

No database and no Django here. The same hint may come twice: an answer that lies in the store already
is only reported again.
"""

from __future__ import annotations

import functools
import logging
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from celery.signals import worker_init, worker_shutdown, worker_shutting_down

from workers.artifacts import ArtifactStore, FolderStore
from workers.capabilities import announce
from workers.celery_app import BUILD_QUEUE, app, worker_config
from workers.evaluation.build import build as build_snapshot
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.device_lock import GivenBack, foreground
from workers.evaluation.verdicts import infrastructure
from workers.presence import PRESENCE_FOLDER, Presence, name_of_this_process
from workers.protocol.codec import from_json, to_json
from workers.protocol.requests import BuildResult, BuildStatus, JobMessage, JobReturn
from workers.pulse import pulsing, tell_answer

logger = logging.getLogger(__name__)

Work = Callable[[JobMessage, ArtifactStore], object]


@functools.cache
def supervisor() -> DeviceSupervisor:
    """The one supervisor of this process."""
    config = worker_config()
    return DeviceSupervisor(config, FolderStore(config.artifacts))


@functools.cache
def presence() -> Presence:
    """Tells the site that this process is there, as long as it is."""
    return Presence(worker_config().artifacts / PRESENCE_FOLDER, name_of_this_process())


@functools.cache
def background() -> ThreadPoolExecutor:
    """The thread for jobs that give way: Celery's own stays free for those that do not."""
    return ThreadPoolExecutor(1, thread_name_prefix="background")


@worker_init.connect  # type: ignore[untyped-decorator]
def appear(**_kwargs: Any) -> None:
    """From now on this worker can be missed."""
    presence()


@worker_init.connect  # type: ignore[untyped-decorator]
def warm_up(sender: Any, **_kwargs: Any) -> None:
    """A device worker takes jobs only when its runners have torch in memory."""
    measured = sorted(set(sender.app.amqp.queues.consume_from) - {BUILD_QUEUE})
    if measured:
        name = " ".join((socket.gethostname(), *measured))
        announce(supervisor().store, supervisor().capabilities(name, measured))
        supervisor().warm()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def hand_back(**_kwargs: Any) -> None:
    """Asked to stop: what is being measured goes back to the queue at once."""
    if supervisor.cache_info().currsize:
        supervisor().interrupt()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def close(**_kwargs: Any) -> None:
    """Leave no process behind."""
    if supervisor.cache_info().currsize:
        supervisor().close()
    if background.cache_info().currsize:
        background().shutdown(cancel_futures=True)
    presence().leave()


@app.task(name="workers.tasks.build")  # type: ignore[untyped-decorator]
def build(text: str) -> None:
    """Compile a snapshot."""

    def work(message: JobMessage, store: ArtifactStore) -> object:
        with foreground(str(message.request.target)):
            return build_snapshot(message.request, store, worker_config())

    def failed(_message: JobMessage, why: str) -> object:
        return BuildResult(BuildStatus.INFRASTRUCTURE, why)

    _answer(from_json(JobMessage, text), work, failed)


@app.task(name="workers.tasks.measure")  # type: ignore[untyped-decorator]
def measure(text: str) -> None:
    """Verify and time a build, or look at a problem alone."""
    message = from_json(JobMessage, text)
    if message.gives_way:
        background().submit(_measure, message).add_done_callback(_log_failure)
    else:
        _measure(message)


def _measure(message: JobMessage) -> None:
    def work(message: JobMessage, _store: ArtifactStore) -> object:
        return supervisor().run(message.request, message.build, gives_way=message.gives_way)

    def failed(message: JobMessage, why: str) -> object:
        return infrastructure(message.request, why)

    _answer(message, work, failed)


def _log_failure(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("a job in the background failed on our side", exc_info=error)


def _answer(message: JobMessage, work: Work, failed: Callable[[JobMessage, str], object]) -> None:
    store = FolderStore(worker_config().artifacts)
    worker = presence().name
    digest = store.get_ref(message.result_key)
    if digest is None:
        with pulsing(app, message, worker):
            try:
                result = work(message, store)
            except GivenBack as why:
                result = JobReturn(str(why))
            except Exception as error:
                logger.exception("job %s failed on our side", message.job)
                result = failed(message, f"The worker failed: {type(error).__name__}: {error}")
            digest = store.put(to_json(result))
            store.put_ref(message.result_key, digest)
    tell_answer(app, message, digest, worker)
