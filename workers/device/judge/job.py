"""What the supervisor hands to the judge, and how failures of runners become statuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from workers.device.judge.link import RunnerFailure
from workers.protocol.diagnostics import Diagnostic, Severity
from workers.protocol.problem import ProblemSpec, Tier
from workers.protocol.requests import BuildResult, EvaluateRequest
from workers.protocol.verdict import DeviceInfo, Environment, Status


@dataclass(frozen=True)
class JudgeJob:
    """Sent as JSON before the files."""

    request: EvaluateRequest
    spec: ProblemSpec
    roles: dict[str, int]
    """Descriptor of the socket to each runner, by role."""
    environment: Environment
    device: DeviceInfo
    timing_cores: tuple[int, ...]
    """Cores that runners are bound to; the judge itself stays off them where it can."""
    build: BuildResult | None = None
    version: int = 1

    @property
    def thorough(self) -> bool:
        """Full and audit tiers look at more."""
        return self.request.tier is not Tier.QUICK


@dataclass
class JudgeFiles:
    """Files by their room: problem, snapshot, library."""

    problem: dict[str, bytes] = field(default_factory=dict)
    snapshot: dict[str, bytes] = field(default_factory=dict)
    library: dict[str, bytes] = field(default_factory=dict)

    def add(self, path: str, content: bytes) -> None:
        room, _, name = path.partition("/")
        getattr(self, room)[name] = content


class Ended(Exception):
    """The course ends here with a status; raised by the stages and caught once."""

    def __init__(
        self, status: Status, summary: str, diagnostics: tuple[Diagnostic, ...] = ()
    ) -> None:
        super().__init__(summary)
        self.status = status
        self.summary = summary
        self.diagnostics = diagnostics


_STATUS = {
    "raised": Status.RUNTIME_ERROR,
    "memory": Status.OUT_OF_MEMORY,
    "gone": Status.RUNTIME_ERROR,
    "silent": Status.TIMEOUT,
    "nonsense": Status.RUNTIME_ERROR,
    "awake": Status.REJECTED,
    "start": Status.INFRASTRUCTURE,
}

_WORDS = {
    "memory": "ran out of memory",
    "gone": "its process ended without an answer (crashed or exited)",
    "silent": "gave no answer in time",
}


def ended_by(failure: RunnerFailure, who: str, doing: str, loading: bool = False) -> Ended:
    """Turn a runner's failure into the end of the course. `who` and `doing` make the sentence."""
    status = _STATUS[failure.kind]
    if loading and failure.kind in ("raised", "gone"):
        status = Status.LOAD_ERROR
    words = _WORDS.get(failure.kind, failure.message or failure.kind)
    place = f" ({failure.where})" if failure.where else ""
    return Ended(status, f"{who} {doing}: {_one_line(words)}{place}", diagnostics_of(failure))


def diagnostics_of(failure: RunnerFailure) -> tuple[Diagnostic, ...]:
    """The traceback as a diagnostic at the place in the user's file."""
    if not failure.trace and not failure.where:
        return ()
    file, _, line = failure.where.partition(":")
    return (
        Diagnostic(
            tool="python",
            severity=Severity.ERROR,
            message=failure.trace or failure.message,
            file=file,
            line=int(line) if re.fullmatch(r"[0-9]{1,7}", line) else None,
        ),
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."
