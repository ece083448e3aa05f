"""The choices that a kernel leaves open; the search tries them and the judge decides."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Keep(enum.StrEnum):
    """What stays in a row buffer between the passes over a row, instead of being computed again."""

    NOTHING = "nothing"
    COSTLY = "costly"
    """Results of exponentials, roots, divisions and the like."""
    ALL = "all"
    """Whatever two passes share."""


@dataclass(frozen=True)
class Variant:
    """One way to write all kernels of a plan."""

    width: int = 0
    """Preferred vector width in bits; 0 leaves it to the compiler."""
    stream: bool = False
    """Write results past the caches."""
    keep: Keep = Keep.COSTLY
    unroll: bool = False
    """Let the compiler unroll the innermost loops."""
    chunk: int = 4096
    """Elements between two look-ups of the outer loop state; also the length of a float sum."""
