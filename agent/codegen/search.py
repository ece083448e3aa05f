"""The search over variants: one change at a time, starting from the best so far, measured by the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.codegen.variant import Keep, Variant
from workers.protocol.verdict import Evaluation, Ratio, Status


@dataclass(frozen=True)
class Trial:
    """A variant that the judge has seen."""

    variant: Variant
    files: dict[str, str]
    evaluation: Evaluation | None
    """None where the judging was cut short."""

    @property
    def speedup(self) -> Ratio | None:
        """The speed-up against eager, where it passed and was timed."""
        if self.evaluation is None or self.evaluation.status is not Status.PASSED:
            return None
        return self.evaluation.timing.speedup_eager if self.evaluation.timing else None

    @property
    def unmeasured(self) -> bool:
        """Correct, but the machine was too busy for an honest time."""
        return self.evaluation is not None and self.evaluation.status is Status.UNMEASURED


@dataclass(frozen=True)
class Proposal:
    """What to try next, and why."""

    variant: Variant
    files: dict[str, str]
    why: str


@dataclass(frozen=True)
class Move:
    """One change of a variant."""

    why: str
    apply: Callable[[Variant], Variant]


FIRST = Variant()

MOVES = (
    Move(
        "write the results past the caches, so that their lines need not be fetched first",
        lambda v: replace(v, stream=True),
    ),
    Move(
        "keep everything that two passes over a row share in a small buffer",
        lambda v: replace(v, keep=Keep.ALL),
    ),
    Move(
        "unroll the innermost loops, so that several loads and sums are under way at once",
        lambda v: replace(v, unroll=True),
    ),
    Move(
        "compute everything again in each pass instead of keeping it in a buffer",
        lambda v: replace(v, keep=Keep.NOTHING),
    ),
    Move("use vectors of 512 bits", lambda v: replace(v, width=512)),
    Move(
        "use vectors of 256 bits: shorter remainders, and some processors clock higher with them",
        lambda v: replace(v, width=256),
    ),
)

Write = Callable[[Variant], dict[str, str]]


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the highest lower end of its interval."""
    measured = [trial for trial in trials if trial.speedup is not None]
    return max(
        measured, key=lambda trial: trial.speedup.low if trial.speedup else 0.0, default=None
    )


def propose(trials: Sequence[Trial], write: Write) -> Proposal | None:
    """What to try after these trials, or None where nothing is left.

    A pure function: the same trials give the same proposal, so a session can be taken up anywhere.
    """
    if not trials:
        return Proposal(
            FIRST, write(FIRST), "write the plain form first, to have a verdict to compare with"
        )
    last = trials[-1]
    if last.unmeasured and not (len(trials) > 1 and trials[-2].variant == last.variant):
        return Proposal(
            last.variant,
            last.files,
            "measure the same again, since the machine was too busy to time it",
        )
    best = best_trial(trials)
    start = best.variant if best is not None else FIRST
    if best is None and len(trials) >= 3:
        return None
    seen = [trial.files for trial in trials]
    for move in MOVES:
        variant = move.apply(start)
        files = write(variant)
        if files not in seen and not _refuted(move, start, trials):
            return Proposal(variant, files, move.why)
    return None


def _refuted(move: Move, start: Variant, trials: Sequence[Trial]) -> bool:
    """Whether this change has been measured already, on top of whatever was best then."""
    plain = move.apply(FIRST)
    changed = [
        name
        for name in ("width", "stream", "keep", "unroll")
        if getattr(plain, name) != getattr(FIRST, name)
    ]
    return any(
        all(getattr(trial.variant, name) == getattr(plain, name) for name in changed)
        for trial in trials
    )
