"""The verdict: one frozen result type for page, command line, agent and training.

built ─┬─ passed            correct, and timed if the stages asked for it
       ├─ incorrect         outputs differ from the reference
       ├─ compile_error     a compiler or the manifest said no
       ├─ link_error        the linker or the symbol audit said no
       ├─ load_error        the library or model_new.py could not be loaded
       ├─ runtime_error     raised, crashed or was killed by a signal while called
       ├─ timeout           took longer than allowed
       ├─ out_of_memory     needed more memory than allowed
       ├─ rejected          broke a rule; the deciding finding names it
       ├─ unmeasured        correct, but the machine was too busy for an honest time
       └─ infrastructure    our fault: nothing is said about the candidate
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from workers.protocol.codec import Json, ProtocolError
from workers.protocol.diagnostics import Diagnostic, Finding
from workers.protocol.inspection import Inspection
from workers.protocol.problem import Precision, Stage, Target, Tier


class Status(enum.StrEnum):
    """See the drawing at the head of this module."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    COMPILE_ERROR = "compile_error"
    LINK_ERROR = "link_error"
    LOAD_ERROR = "load_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    UNMEASURED = "unmeasured"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class Ratio:
    """A speed-up: baseline time over candidate time, above 1 is faster."""

    median: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    pairs: int
    """Paired measurements behind it."""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.median <= self.high:
            raise ProtocolError("a ratio needs 0 < low <= median <= high")


@dataclass(frozen=True)
class Block:
    """One timed block: `calls` calls took `total_ms` until the judge held the output bytes."""

    arm: str
    """`eager`, `candidate`, `compile` or `noop`."""
    calls: int
    total_ms: float
    order: int
    """Position in the run, so that drifts can be seen."""
    copy_ms: float = 0.0
    """Part of `total_ms` in which the judge copied from the frozen process; not charged to the arm."""
    disturbed: bool = False
    """The machine was not at its pace around it, so nothing was concluded from it."""


@dataclass(frozen=True)
class ArmTiming:
    """One arm. The time per call is the slope over block lengths, the no-op's slope subtracted."""

    per_call_ms: float
    intercept_ms: float
    """What a block costs beyond its calls."""
    single_ms: float
    """A block of one call minus the no-op's."""
    blocks: int


@dataclass(frozen=True)
class Timing:
    """All that the clock saw. Raw blocks are kept, so that anybody can redo the arithmetic."""

    eager: ArmTiming
    candidate: ArmTiming
    speedup_eager: Ratio
    noop_per_call_ms: float
    blocks: tuple[Block, ...]
    eager_alone_ms: float | None = None
    """Eager's time per call before any of the candidate's code was loaded."""
    compile: ArmTiming | None = None
    speedup_compile: Ratio | None = None
    host_bound: bool = False
    """True below 0.1 ms per call, where the call itself dominates."""


@dataclass(frozen=True)
class Baseline:
    """torch.compile beside eager for one problem, device, versions and precision; no candidate in it."""

    eager: ArmTiming
    compile: ArmTiming
    compile_over_eager: Ratio
    """Eager time over compiled time: what torch.compile gains."""
    compile_seconds: float
    """How long torch.compile took before its first result."""
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class OutputError:
    """One output of one case. Errors are relative to the RMS of the fp64 reference."""

    path: str
    """`0`, `1` … for tuples, keys for dicts, empty for a single tensor."""
    rms_error: float
    rms_limit: float
    max_error: float
    max_limit: float
    passed: bool
    message: str = ""
    first_bad_index: tuple[int, ...] | None = None
    expected: float | None = None
    actual: float | None = None


@dataclass(frozen=True)
class CaseResult:
    """One call that was compared."""

    name: str
    passed: bool
    outputs: tuple[OutputError, ...]


@dataclass(frozen=True)
class Correctness:
    """The comparison, on bytes that the judge copied before its clock stopped."""

    cases: tuple[CaseResult, ...]
    reference: str
    """`fp64` or `eager`: what the outputs were compared with."""
    timed_calls_checked: int = 0
    """Calls inside timed blocks whose outputs were compared as well."""


@dataclass(frozen=True)
class Authorship:
    """Whose work it is. `kernel_share` is measured with the kernels replaced by empty ones."""

    stub_breaks_output: bool
    kernel_share: float | None = None
    """1 - t(stub)/t, between 0 and 1; None where it was not timed."""
    torch_calls: tuple[str, ...] = ()
    """Compute operators of torch that the candidate's process reported: its claim."""


@dataclass(frozen=True)
class Memory:
    """Peak resident memory while called, above the loaded model, as the judge read it."""

    eager_bytes: int
    candidate_bytes: int


@dataclass(frozen=True)
class DeviceInfo:
    """Where it was measured."""

    name: str
    target: Target
    threads: int = 1
    cores: int = 1
    l2_bytes: int = 0
    extra: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """Versions that may change a verdict."""

    judge: str
    python: str
    torch: str
    compiler: str
    sandbox: str
    """`bubblewrap`, `namespaces` or `none`."""
    os: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The verdict on (problem, snapshot) at a tier, or on a problem alone (no snapshot)."""

    status: Status
    summary: str
    """One sentence for people."""
    problem: str
    """Digest."""
    snapshot: str
    """Digest; empty where the problem alone was looked at."""
    target: Target
    tier: Tier
    precision: Precision
    stages: tuple[Stage, ...]
    certified: bool = False
    """True for the full tier on a problem that the site vouches for."""
    held: bool = False
    """Passed, but too good to be believed before a `full` evaluation: above 10x."""
    diagnostics: tuple[Diagnostic, ...] = ()
    findings: tuple[Finding, ...] = ()
    correctness: Correctness | None = None
    timing: Timing | None = None
    baseline: Baseline | None = None
    authorship: Authorship | None = None
    memory: Memory | None = None
    inspection: Inspection | None = None
    setup_ms: float | None = None
    """Constructor, loading of parameters and the first untimed call of the candidate."""
    device: DeviceInfo | None = None
    environment: Environment | None = None
    durations_ms: dict[str, float] = field(default_factory=dict)
    """Wall time per stage of the judge itself."""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Digests of larger things: `build_log`, `library`."""
    version: int = 1

    def __post_init__(self) -> None:
        if self.timing is not None and self.status not in (Status.PASSED, Status.REJECTED):
            raise ProtocolError(f"a {self.status} verdict may not hold a timing")
        if self.status is Status.REJECTED and not any(f.rejects for f in self.findings):
            raise ProtocolError("a rejected verdict needs the finding that rejects")
        if self.status is Status.PASSED:
            if any(f.rejects for f in self.findings):
                raise ProtocolError("a passed verdict may not hold a rejecting finding")
            if Stage.TIME in self.stages and self.snapshot and self.timing is None:
                raise ProtocolError("a passed verdict with the time stage needs a timing")
        if self.held and self.status is not Status.PASSED:
            raise ProtocolError("only a passed verdict can be held")
