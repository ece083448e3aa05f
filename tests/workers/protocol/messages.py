"""One hand-made instance of every message type, with every field away from its default.

`python -m tests.workers.protocol.messages` writes the golden files anew. Do that only with a change of
the protocol that you mean: what is stored in databases and artifact stores has the old form.
"""

from __future__ import annotations

from pathlib import Path

from workers.protocol.capabilities import Capabilities
from workers.protocol.codec import to_json
from workers.protocol.diagnostics import Diagnostic, Finding, Severity
from workers.protocol.events import Event, EventKind
from workers.protocol.files import FileEntry, FileManifest
from workers.protocol.inspection import GraphNode, GraphValue, Inspection, Mutant, TensorInfo
from workers.protocol.ops import (
    ElementType,
    InputKind,
    Op,
    OpInput,
    OpManifest,
    OpOutput,
    OpScratch,
)
from workers.protocol.problem import OpPolicy, Precision, ProblemSpec, Stage, Target, Tier
from workers.protocol.requests import (
    BuildResult,
    BuildStatus,
    EvaluateRequest,
    JobAnswer,
    JobKind,
    JobMessage,
    JobPulse,
    JobReturn,
)
from workers.protocol.transcript import Role, Tokens, ToolCall, ToolResult, TranscriptEntry, Usage
from workers.protocol.verdict import (
    ArmTiming,
    Authorship,
    Baseline,
    Block,
    CaseResult,
    Correctness,
    DeviceInfo,
    Environment,
    Evaluation,
    Memory,
    OutputError,
    Ratio,
    Status,
    Timing,
)

GOLDEN = Path(__file__).parent / "golden"

PROBLEM = "1" * 64
SNAPSHOT = "2" * 64
LIBRARY = "3" * 64
LOG = "4" * 64

ENVIRONMENT = Environment(
    judge="0.1.0",
    python="3.11.7",
    torch="2.13.0+cpu",
    compiler="g++ 12.2.0",
    sandbox="bubblewrap",
    os="Linux 6.1",
)
DEVICE = DeviceInfo(
    name="Xeon", target=Target.CPU, threads=1, cores=2, l2_bytes=2097152, extra={"avx512": True}
)
DIAGNOSTIC = Diagnostic(
    tool="g++",
    severity=Severity.WARNING,
    message="unused variable 'i'",
    file="kernels/gelu.cpp",
    line=7,
    column=12,
    code="-Wunused-variable",
)
EAGER = ArmTiming(per_call_ms=4.5, intercept_ms=0.25, single_ms=4.625, blocks=12)
CANDIDATE = ArmTiming(per_call_ms=1.5, intercept_ms=0.25, single_ms=1.75, blocks=12)
COMPILED = ArmTiming(per_call_ms=3.0, intercept_ms=0.25, single_ms=3.125, blocks=12)
INSPECTION = Inspection(
    values=(
        GraphValue("x", "input", "x", TensorInfo((8, 16), "float32", (16, 1))),
        GraphValue("n", "input", "n", None, 3),
    ),
    nodes=(
        GraphNode(
            name="add",
            target="aten.add.Tensor",
            args=({"node": "x"}, 1.5),
            kwargs={"alpha": 2},
            outputs=(TensorInfo((8, 16), "float32", (16, 1)),),
            flops=128,
            bytes_read=512,
            bytes_written=512,
            location="model.py:14",
        ),
    ),
    outputs=({"node": "add"},),
    output_structure="tensor",
    flops=128,
    bytes_moved=1024,
    mutants=(Mutant("zeros", True), Mutant("without bias", False)),
    eager_ms=4.5,
    floor_ms=0.125,
    torch_version="2.13.0+cpu",
    constructor=(16, "relu"),
    input_names=("x", "n"),
    notes=("dropout is off",),
    extra={"depends": True},
)
REQUEST = EvaluateRequest(
    problem=PROBLEM,
    snapshot=SNAPSHOT,
    stages=(Stage.BUILD, Stage.VERIFY, Stage.TIME),
    target=Target.CUDA,
    tier=Tier.FULL,
    precision=Precision.TF32,
)
BUILD = BuildResult(
    status=BuildStatus.BUILT,
    summary="built 1 kernel",
    diagnostics=(DIAGNOSTIC,),
    library=LIBRARY,
    stub_library=LOG,
    style="pybind",
    namespace="_gelu_cpu_2222222",
    compiler="g++ 12.2.0",
    seconds=1.25,
    cached_objects=1,
    compiled_objects=2,
    log=LOG,
)

MESSAGES: dict[str, object] = {
    "baseline_evaluation": Evaluation(
        status=Status.PASSED,
        summary="torch.compile takes two thirds of eager's time",
        problem=PROBLEM,
        snapshot="",
        target=Target.CPU,
        tier=Tier.QUICK,
        precision=Precision.IEEE,
        stages=(Stage.INSPECT, Stage.BASELINE),
        baseline=Baseline(
            EAGER, COMPILED, Ratio(1.5, 1.25, 1.75, 9), 18.5, (Block("compile", 4, 12.5, 3),)
        ),
        inspection=INSPECTION,
    ),
    "build_result": BUILD,
    "capabilities": Capabilities(
        worker="host-1",
        queues=("device.cpu", "device.cpu.train"),
        targets=(Target.CPU, Target.CUDA),
        environment=ENVIRONMENT,
        device=DEVICE,
        tools=("objdump",),
        problem="no sandbox",
    ),
    "diagnostic": DIAGNOSTIC,
    "evaluate_request": REQUEST,
    "event": Event(
        stream="7f6f0e6c-0000-4000-8000-000000000000",
        seq=3,
        at="2026-11-30T15:00:00.125Z",
        kind=EventKind.TOOL_FINISHED,
        body={"turn": 1, "call": "c1", "tool": "verify", "ok": True, "summary": "größer ≥ 1"},
    ),
    "file_manifest": FileManifest(
        (FileEntry("kernels/a.cpp", LOG), FileEntry("model.py", PROBLEM))
    ),
    "finding": Finding(
        rule="late_write",
        message="An output changed after it was returned.",
        rejects=True,
        evidence="byte 16",
        claimed=True,
    ),
    "inspection": INSPECTION,
    "job_answer": JobAnswer("job-1", 2, 5, "secret", LIBRARY, "host-1", {"seconds": 1.5}),
    "job_message": JobMessage("job-1", JobKind.DEVICE, 2, 5, "secret", REQUEST, BUILD),
    "job_return": JobReturn("The worker was asked to stop."),
    "job_pulse": JobPulse("job-1", 2, 5, "secret", "host-1"),
    "op_manifest": OpManifest(
        (
            Op(
                name="bias_gelu",
                launcher="ws_bias_gelu",
                inputs=(
                    OpInput("x", InputKind.TENSOR, ElementType.FLOAT32, 2),
                    OpInput("count", InputKind.INT),
                    OpInput("scale", InputKind.FLOAT),
                    OpInput("exact", InputKind.BOOL),
                ),
                outputs=(OpOutput("y", ElementType.BFLOAT16, ("x.0", "(x.1 + 3) / 4 * count")),),
                arguments=("x", "y", "tmp", "x.0", "x.numel", "count", "scale", "exact", "stream"),
                scratch=(OpScratch("tmp", "4 * x.1"),),
            ),
        )
    ),
    "problem_spec": ProblemSpec(
        title="Bias and GELU",
        target=Target.CUDA,
        precision=Precision.BF16,
        threads=4,
        op_policy=OpPolicy.TORCH_ALLOWED,
        strides_matter=True,
        variable_dims={"x": (0, 1)},
    ),
    "rejected_evaluation": Evaluation(
        status=Status.REJECTED,
        summary="An output changed after it was returned.",
        problem=PROBLEM,
        snapshot=SNAPSHOT,
        target=Target.CPU,
        tier=Tier.QUICK,
        precision=Precision.IEEE,
        stages=(Stage.BUILD, Stage.VERIFY),
        findings=(Finding("late_write", "An output changed after it was returned.", True),),
    ),
    "timed_evaluation": Evaluation(
        status=Status.PASSED,
        summary="3.0x eager",
        problem=PROBLEM,
        snapshot=SNAPSHOT,
        target=Target.CPU,
        tier=Tier.FULL,
        precision=Precision.PAPER,
        stages=(Stage.BUILD, Stage.VERIFY, Stage.TIME),
        certified=True,
        held=True,
        diagnostics=(DIAGNOSTIC,),
        findings=(Finding("host_bound", "A call takes less than 0.1 ms."),),
        correctness=Correctness(
            cases=(
                CaseResult(
                    "seed 1",
                    True,
                    (
                        OutputError(
                            "0", 1e-07, 1e-05, 2e-07, 1e-05, True, "close", (0, 3), 1.0, 1.5
                        ),
                    ),
                ),
            ),
            reference="fp64",
            timed_calls_checked=3,
        ),
        timing=Timing(
            eager=EAGER,
            candidate=CANDIDATE,
            speedup_eager=Ratio(3.0, 2.75, 3.25, 11),
            noop_per_call_ms=0.015625,
            blocks=(Block("eager", 4, 18.25, 0), Block("candidate", 4, 6.25, 1)),
            compile=COMPILED,
            speedup_compile=Ratio(2.0, 1.75, 2.25, 9),
            host_bound=True,
        ),
        authorship=Authorship(True, 0.75, ("aten.empty",)),
        memory=Memory(4096, 2048),
        setup_ms=12.5,
        device=DEVICE,
        environment=ENVIRONMENT,
        durations_ms={"verify": 250.0},
        artifacts={"library": LIBRARY},
    ),
    "transcript_entry": TranscriptEntry(
        turn=2,
        role=Role.AUTHOR,
        text="Vectorise the inner loop.",
        tool_calls=(ToolCall("c1", "write", {"path": "kernels/gelu.cpp"}),),
        results=(ToolResult("c1", True, "written", {"bytes": 120}),),
        snapshot=SNAPSHOT,
        usage=Usage(1200, 340, 0.0125),
        tokens=Tokens((5, 6), (-0.5, -0.25), (0, 1)),
    ),
}


def write() -> None:
    """Write every golden file anew."""
    GOLDEN.mkdir(exist_ok=True)
    for name, message in MESSAGES.items():
        (GOLDEN / f"{name}.json").write_bytes(to_json(message))


if __name__ == "__main__":
    write()
