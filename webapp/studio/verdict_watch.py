"""Waiting for verdicts inside the session host: one query for all that wait, every 50 ms."""

from __future__ import annotations

import asyncio
from uuid import UUID

from webapp.common.database_thread import in_thread
from webapp.evaluations.models import Evaluation, EvaluationState

POLL_SECONDS = 0.05


class VerdictWatch:
    """Hands out evaluations as soon as they have a verdict."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, asyncio.Future[Evaluation]] = {}
        self._poller: asyncio.Task[None] | None = None

    async def wait(self, evaluation_id: UUID) -> Evaluation:
        """The evaluation, once it is over. Bounded by the sweeper, which gives up at last."""
        future: asyncio.Future[Evaluation] = asyncio.get_running_loop().create_future()
        self._waiting[evaluation_id] = future
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            return await future
        finally:
            self._waiting.pop(evaluation_id, None)

    async def _poll(self) -> None:
        while self._waiting:
            try:
                found = await in_thread(_over, list(self._waiting))
            except Exception as error:  # noqa: BLE001 - a door: whoever waits gets the error
                self._fail(error)
                return
            for evaluation in found:
                future = self._waiting.get(evaluation.pk)
                if future is not None and not future.done():
                    future.set_result(evaluation)
            await asyncio.sleep(POLL_SECONDS)

    def _fail(self, error: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


def _over(ids: list[UUID]) -> list[Evaluation]:
    states = (EvaluationState.DONE, EvaluationState.LOST)
    return list(Evaluation.objects.filter(pk__in=ids, state__in=states))
