"""What a problem says about itself (`problem.toml`) and the closed lists that requests use."""

from __future__ import annotations

import enum
import tomllib
from dataclasses import dataclass, field

from workers.protocol.codec import ProtocolError, from_data

MAX_TOML_CHARS = 4000
"""Ten times what a spec needs. Dotted keys cost the parser time that grows with their square."""


class Target(enum.StrEnum):
    """Where kernels run."""

    CPU = "cpu"
    CUDA = "cuda"


class Precision(enum.StrEnum):
    """The arithmetic that both arms may use."""

    IEEE = "ieee"
    TF32 = "tf32"
    BF16 = "bf16"
    PAPER = "paper"
    """atol = rtol = 1e-2 and framework defaults: only for comparing with published numbers."""


class Tier(enum.StrEnum):
    """How much of the judge runs."""

    QUICK = "quick"
    FULL = "full"
    AUDIT = "audit"


class Stage(enum.StrEnum):
    """The parts of an evaluation; the tools of the agent are requests with fewer of them."""

    INSPECT = "inspect"
    """The problem alone: runs, is deterministic, depends on its inputs; graph, shapes, eager time."""
    BUILD = "build"
    VERIFY = "verify"
    TIME = "time"
    BASELINE = "baseline"
    """The problem alone: the paired ratio of torch.compile against eager."""


class OpPolicy(enum.StrEnum):
    """Whether `forward` of the candidate may compute with torch."""

    KERNELS_ONLY = "kernels_only"
    """Only allocation, views and the candidate's own kernels."""
    TORCH_ALLOWED = "torch_allowed"


@dataclass(frozen=True)
class ProblemSpec:
    """`problem.toml`. Every field has a default, so the file may be missing or empty."""

    title: str = ""
    target: Target = Target.CPU
    precision: Precision = Precision.IEEE
    threads: int = 1
    """CPU threads that both arms may use."""
    op_policy: OpPolicy = OpPolicy.KERNELS_ONLY
    strides_matter: bool = False
    """Whether the memory layout of the outputs must equal the reference's."""
    variable_dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Per input name the dimensions along which shapes may vary."""
    version: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= 256:
            raise ProtocolError("problem.toml: threads must be between 1 and 256")
        if self.version != 1:
            raise ProtocolError("problem.toml: version must be 1; leave it out")
        if not self.title.isprintable():
            raise ProtocolError("problem.toml: title must be one line of text")
        for name in self.variable_dims:
            if not name.isidentifier():
                raise ProtocolError(
                    f"problem.toml: variable_dims names {name[:40]!r}; write names of forward's arguments"
                )


def parse_problem_toml(text: str) -> ProblemSpec:
    """Read `problem.toml`; raises `ProtocolError` with one sentence that says what to change."""
    if len(text) > MAX_TOML_CHARS:
        raise ProtocolError(
            f"problem.toml has {len(text):,} characters; {MAX_TOML_CHARS:,} are allowed"
        )
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProtocolError(f"problem.toml: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            "problem.toml holds a number that is too long or brackets in too many brackets: simplify it"
        ) from error
    try:
        return from_data(ProblemSpec, data)
    except ProtocolError as error:
        raise ProtocolError(str(error).replace("ProblemSpec", "problem.toml")) from error
