"""The seam to the judge. The terminal, the site and the trainer each bring their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.errors import JudgeUnavailable
from workers.protocol.problem import Stage
from workers.protocol.verdict import Evaluation, Status


@dataclass(frozen=True)
class Judged:
    """A verdict and where it is kept."""

    evaluation: Evaluation
    reference: str = ""
    """Id of the site's row; empty where there is no site."""
    library: Callable[[], bytes] | None = None
    """Brings the built library, where one was built; blocks."""


class Evaluator(Protocol):
    """Judges for one session: the problem is known to it.

    A bad candidate is a verdict, never an exception. A verdict `infrastructure` says nothing about
    the candidate: the loop asks once more and then ends the session as failed.
    """

    async def inspect(self) -> Judged:
        """Look at the problem alone: its graph, shapes, work and eager time."""
        ...

    async def evaluate(self, files: Mapping[str, bytes], stages: tuple[Stage, ...]) -> Judged:
        """Judge the author's files (`workers.workspace.layout.snapshot_files`) at these stages."""
        ...


class AskAgain:
    """An evaluator that asks a second time when the judge itself failed, then gives up."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    async def inspect(self) -> Judged:
        """As the inner one's; raises `JudgeUnavailable`."""
        return await _twice(self._inner.inspect)

    async def evaluate(self, files: Mapping[str, bytes], stages: tuple[Stage, ...]) -> Judged:
        """As the inner one's; raises `JudgeUnavailable`."""
        return await _twice(lambda: self._inner.evaluate(files, stages))


async def _twice(ask: Callable[[], Awaitable[Judged]]) -> Judged:
    judged = await ask()
    if judged.evaluation.status is Status.INFRASTRUCTURE:
        judged = await ask()
    if judged.evaluation.status is Status.INFRASTRUCTURE:
        raise JudgeUnavailable(f"The judge failed twice: {judged.evaluation.summary}")
    return judged
