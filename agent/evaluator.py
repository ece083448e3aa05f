"""The seam to the judge. The terminal, the site and the trainer each bring their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from workers.protocol.problem import Stage
from workers.protocol.verdict import Evaluation


@dataclass(frozen=True)
class Judged:
    """A verdict and where it is kept."""

    evaluation: Evaluation
    reference: str = ""
    """Id of the site's row; empty where there is no site."""


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
