"""The recorder's sweeper: a thread of the worker on queue `web`, since nothing may depend on a message."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from celery.signals import worker_ready, worker_shutting_down
from django.db import close_old_connections
from django.utils import timezone

from webapp.common.artifacts import alive_folder
from webapp.evaluations.flow import backlog
from webapp.evaluations.sweep import extend_deadlines, start_background_jobs, sweep
from webapp.studio.queries import any_running, problems_with_ended_sessions
from webapp.studio.services import announce_baselines
from workers.presence import forget_old

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 2.0
SETTLE_SECONDS = 60.0
"""How long after a gap in the messages silence proves nothing yet."""


class Sweeper:
    """Sweeps every two seconds until stopped."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._last_gap = time.monotonic()

    def run(self) -> None:
        """Sweep until `stop`; one failed round never ends it."""
        begins = True
        while not self._ending.wait(SWEEP_SECONDS):
            try:
                if begins:
                    extend_deadlines(timezone.now())
                    forget_old(alive_folder())
                self.sweep_once(begins=begins)
                begins = False
            except Exception:
                logger.exception("a round of the sweeper failed")
            finally:
                close_old_connections()

    def stop(self) -> None:
        """End after the current round."""
        self._ending.set()

    def sweep_once(self, *, begins: bool = False) -> None:
        """All that has to be looked after, in one round."""
        if backlog() != 0:
            self._last_gap = time.monotonic()
        flow = time.monotonic() - self._last_gap > SETTLE_SECONDS
        sweep(messages_flow=flow, begins=begins)
        start_background_jobs(sessions_run=any_running(), wanted=problems_with_ended_sessions())
        announce_baselines()


_sweeper = Sweeper()


@worker_ready.connect  # type: ignore[untyped-decorator]
def start_sweeper(**_kwargs: Any) -> None:
    """The recorder takes messages now; begin to sweep beside it."""
    threading.Thread(target=_sweeper.run, name="sweeper", daemon=True).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_sweeper(**_kwargs: Any) -> None:
    """The recorder ends."""
    _sweeper.stop()
