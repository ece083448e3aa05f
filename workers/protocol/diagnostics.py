"""What compilers, linkers and rules say, as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Diagnostic:
    """One message of a tool, placed in a file of the workspace where the tool said so."""

    tool: str
    """`g++`, `nvcc`, `ptxas`, `ld`, `manifest`, `python`, `audit`."""
    severity: Severity
    message: str
    file: str = ""
    """Path inside the workspace; empty where there is none."""
    line: int | None = None
    """1-based."""
    column: int | None = None
    """1-based."""
    code: str = ""
    """The option or rule that raised it, such as `-Wunused-variable`."""


@dataclass(frozen=True)
class Finding:
    """Something the judge noticed. `rejects` says whether it decided the verdict."""

    rule: str
    """Short stable name, such as `authorship` or `late_write`."""
    message: str
    """One sentence for people."""
    rejects: bool = False
    evidence: str = ""
    claimed: bool = False
    """True where the evidence comes from inside the candidate's process and may be a lie."""
