"""What is asked of builder and judge, and how jobs travel between processes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from workers.protocol.codec import Json, ProtocolError
from workers.protocol.diagnostics import Diagnostic
from workers.protocol.problem import Precision, Stage, Target, Tier


@dataclass(frozen=True)
class EvaluateRequest:
    """One evaluation. Problem and snapshot are digests of file manifests in the artifact store."""

    problem: str
    snapshot: str
    """Empty for stages that look at the problem alone."""
    stages: tuple[Stage, ...]
    target: Target = Target.CPU
    tier: Tier = Tier.QUICK
    precision: Precision = Precision.IEEE
    version: int = 1

    def __post_init__(self) -> None:
        if not self.stages:
            raise ProtocolError("an evaluation needs at least one stage")
        alone = {Stage.INSPECT, Stage.BASELINE}
        if self.snapshot and alone & set(self.stages):
            raise ProtocolError("inspect and baseline look at the problem alone")
        if not self.snapshot and not set(self.stages) <= alone:
            raise ProtocolError("build, verify and time need a snapshot")


class BuildStatus(enum.StrEnum):
    BUILT = "built"
    COMPILE_ERROR = "compile_error"
    LINK_ERROR = "link_error"
    REJECTED = "rejected"
    """The symbol audit found something that the op rules forbid."""
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class BuildResult:
    """What the builder made of a snapshot. Libraries are artifacts, named by sha256."""

    status: BuildStatus
    summary: str
    diagnostics: tuple[Diagnostic, ...] = ()
    library: str = ""
    """The shared library; empty for a snapshot without kernels or with an error."""
    stub_library: str = ""
    """The same binding over launchers that do nothing."""
    style: str = "manifest"
    """`manifest` (stable ABI, generated), `pybind` (the workspace's own binding) or `python` (no kernels)."""
    namespace: str = ""
    """Namespace of the operators in torch.ops for the style `manifest`."""
    compiler: str = ""
    seconds: float = 0.0
    cached_objects: int = 0
    compiled_objects: int = 0
    log: str = ""
    """Digest of the whole compiler output."""
    version: int = 1

    def __post_init__(self) -> None:
        if self.library and self.status is not BuildStatus.BUILT:
            raise ProtocolError("only a finished build has a library")


class JobKind(enum.StrEnum):
    BUILD = "build"
    DEVICE = "device"


@dataclass(frozen=True)
class JobMessage:
    """A hint that a job waits. The database row is the truth; this may be lost or come twice."""

    job: str
    kind: JobKind
    attempt: int
    fence: int
    """Grows with each attempt; a result with an older fence is ignored."""
    token: str
    """Proves that the answer comes from whom we asked; good once."""
    request: EvaluateRequest
    build: BuildResult | None = None
    """For device jobs with a snapshot."""
    gives_way: bool = False
    """Leave it, and hand it back, as soon as somebody waits for the device."""
    version: int = 1

    @property
    def result_key(self) -> str:
        """Name in the artifact store under which the worker leaves its answer."""
        return f"job-{self.job}-{self.attempt}"


@dataclass(frozen=True)
class JobReturn:
    """What a worker leaves in place of an answer when it hands a job back unfinished.

    It is nobody's failure: the job waits for its next attempt as if it had never been begun.
    """

    returned: str
    """Why, one sentence."""
    version: int = 1


@dataclass(frozen=True)
class JobAnswer:
    """What a worker reports: where the answer lies. `result` is an artifact digest."""

    job: str
    attempt: int
    fence: int
    token: str
    result: str
    worker: str
    extra: dict[str, Json] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True)
class JobPulse:
    """A worker's sign of life: it has begun the job, or is still at it. May be lost."""

    job: str
    attempt: int
    fence: int
    token: str
    worker: str
    version: int = 1
