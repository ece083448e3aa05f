"""When a job that runs should be left unfinished, and how it is stopped then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from workers.evaluation.device_lock import wanted

LOOK_S = 0.1

STOPPING = "The worker was asked to stop."
SOMEBODY_WAITS = "Somebody waits for the device; it is tried again in a quiet moment."


@dataclass
class Leaving:
    """One job's reasons to be left: its worker ends, or it gives way to work that somebody waits for."""

    device: str
    gives_way: bool
    ending: threading.Event
    """Set when the worker ends."""
    reason: str = field(default="", init=False)
    """Why the job was stopped; empty while it was not."""

    def why(self) -> str:
        """The reason there is just now; empty when there is none."""
        if self.ending.is_set():
            return STOPPING
        return SOMEBODY_WAITS if self.gives_way and wanted(self.device) else ""

    @contextmanager
    def watched(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` from a thread beside the block as soon as there is a reason, and note that."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(LOOK_S):
                self.reason = self.why()
                if self.reason:
                    stop()
                    return

        thread = threading.Thread(target=watch, name="leaving", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
