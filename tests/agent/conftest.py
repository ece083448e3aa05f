"""What the agent's tests share: real inspections, real kernels through ctypes, honest little seams."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.codegen.lowering import lower
from agent.codegen.rules import RULES
from agent.codegen.variant import Variant
from agent.codegen.writer import write_files
from agent.evaluator import Judged
from agent.session import TurnRecord
from workers.protocol.codec import from_data
from workers.protocol.events import EventKind
from workers.protocol.inspection import Inspection
from workers.protocol.ops import Op, OpManifest, parse_manifest
from workers.protocol.problem import Precision, Stage, Target, Tier
from workers.protocol.verdict import ArmTiming, Evaluation, Ratio, Status, Timing

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


def model_source(body: str, inputs: Mapping[str, str], init: str = "pass") -> str:
    """A model.py from the lines of its forward, its inputs and the lines of its constructor."""
    lines = [
        HEAD,
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
    ]
    lines += [f"        {line}" for line in init.splitlines()]
    lines += [f"    def forward(self, {', '.join(inputs)}):"]
    lines += [f"        {line}" for line in body.splitlines()]
    lines += [f"def get_inputs(): return [{', '.join(inputs.values())}]"]
    lines += ["def get_init_inputs(): return []", ""]
    return "\n".join(lines)


@dataclass
class Reference:
    """A loaded model.py."""

    source: str
    module: Any
    inputs: list[Any]
    constructor: list[Any]
    inspection: Inspection


def load_reference(source: str, path: Path) -> Reference:
    """Load a model.py and inspect it, in this process."""
    from workers.device.runner.inspection import inspect_model

    path.write_text(source)
    namespace: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), namespace)  # the test's own text
    constructor = namespace["get_init_inputs"]()
    module = namespace["Model"](*constructor).eval()
    inputs = namespace["get_inputs"]()
    data = inspect_model(module, inputs, source_path=str(path))
    return Reference(source, module, inputs, constructor, from_data(Inspection, data))


@pytest.fixture
def reference(tmp_path: Path) -> Callable[[str], Reference]:
    """Loads a model's source."""
    return lambda source: load_reference(source, tmp_path / "model.py")


class Built:
    """A candidate compiled with g++ and called through ctypes, as its manifest says."""

    def __init__(self, reference: Reference, folder: Path, variant: Variant, threads: int) -> None:
        graph = lower(reference.inspection, RULES)
        self.files = write_files(graph, reference.inspection, reference.source, variant, threads)
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        sources = [str(path) for path in sorted((folder / "kernels").glob("*.cpp"))]
        command = [
            "g++",
            "-std=c++17",
            "-O2",
            "-march=native",
            "-fno-math-errno",
            "-fopenmp",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]
        command += ["-shared", "-fPIC", *sources, "-o", str(folder / "library.so")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        self.manifest = parse_manifest(self.files["kernels/ops.json"])
        self.module = self._load(folder / "library.so", reference)

    def _load(self, library: Path, reference: Reference) -> Any:
        saved = sys.modules.get("kernel_ops")
        sys.modules["kernel_ops"] = kernel_ops(ctypes.CDLL(str(library)), self.manifest)
        try:
            namespace: dict[str, Any] = {}
            exec(compile(self.files["model_new.py"], "model_new.py", "exec"), namespace)
            module = namespace["ModelNew"](*reference.constructor)
        finally:
            del sys.modules["kernel_ops"]
            if saved is not None:
                sys.modules["kernel_ops"] = saved
        module.load_state_dict(reference.module.state_dict(), strict=True)
        return module


def kernel_ops(library: ctypes.CDLL, manifest: OpManifest) -> types.ModuleType:
    """The module that model_new.py imports, on top of a loaded library."""
    module = types.ModuleType("kernel_ops")
    for op in manifest.ops:
        setattr(module, op.name, _caller(library, op))
    return module


def _caller(library: ctypes.CDLL, op: Op) -> Callable[..., Any]:
    import torch

    def call(*args: Any) -> Any:
        given = dict(zip([item.name for item in op.inputs], args, strict=True))
        for item in op.inputs:
            tensor = given[item.name]
            assert tensor.is_contiguous()
            assert tensor.dim() == item.ndim
            assert tensor.dtype == getattr(torch, str(item.dtype))
        # Poison shows elements that a kernel forgets to write.
        outputs = [
            torch.full([_size(text, given) for text in o.shape], 77, dtype=getattr(torch, o.dtype))
            for o in op.outputs
        ]
        scratch = {
            s.name: torch.empty(_size(s.bytes, given), dtype=torch.uint8) for s in op.scratch
        }
        named = {o.name: tensor for o, tensor in zip(op.outputs, outputs, strict=True)}
        memory = {**given, **named, **scratch}
        passed = [
            ctypes.c_void_p(memory[a].data_ptr())
            if a in memory
            else ctypes.c_int64(_size(a, given))
            for a in op.arguments
        ]
        getattr(library, op.launcher)(*passed)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call


def _size(text: str, tensors: Mapping[str, Any]) -> int:
    def number(match: re.Match[str]) -> str:
        tensor = tensors[match[1]]
        return str(tensor.numel() if match[2] == "numel" else tensor.shape[int(match[2])])

    return int(eval(re.sub(r"([A-Za-z]\w*)\.(numel|\d+)", number, text).replace("/", "//")))


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., Built]:
    """Writes, compiles and loads a candidate."""
    count = 0

    def build(reference: Reference, variant: Variant | None = None, threads: int = 1) -> Built:
        nonlocal count
        count += 1
        folder = tmp_path / f"built{count}"
        folder.mkdir()
        return Built(reference, folder, variant or Variant(), threads)

    return build


@dataclass
class Notebook:
    """A listener that keeps everything."""

    events: list[tuple[EventKind, dict[str, Any]]] = field(default_factory=list)
    turns: list[TurnRecord] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)

    async def emit(self, kind: EventKind, body: dict[str, Any]) -> None:
        self.events.append((kind, body))

    async def delta(self, turn: int, text: str) -> None:
        self.deltas.append(text)

    async def turn_finished(self, turn: TurnRecord) -> None:
        self.turns.append(turn)

    def kinds(self) -> list[str]:
        return [kind.value for kind, _ in self.events]


def verdict(
    status: Status = Status.PASSED,
    speedup: float | None = None,
    stages: Sequence[Stage] = (Stage.BUILD, Stage.VERIFY, Stage.TIME),
    inspection: Inspection | None = None,
    summary: str = "a summary",
) -> Evaluation:
    """A verdict as the judge could give it."""
    timing = None
    if speedup is not None:
        ratio = Ratio(speedup, speedup * 0.99, speedup * 1.01, 30)
        arms = [ArmTiming(ms, 0.1, ms, 8) for ms in (speedup, 1.0)]
        timing = Timing(arms[0], arms[1], ratio, 0.01, ())
    return Evaluation(
        status=status,
        summary=summary,
        problem="0" * 64,
        snapshot="" if Stage.INSPECT in stages else "1" * 64,
        target=Target.CPU,
        tier=Tier.QUICK,
        precision=Precision.IEEE,
        stages=tuple(stages),
        timing=timing,
        inspection=inspection,
    )


class Examiner:
    """An evaluator for tests of the loop: it compiles nothing, its verdict is a function of the files."""

    def __init__(
        self, grade: Callable[[dict[str, bytes]], Evaluation], inspection: Inspection | None = None
    ) -> None:
        self.grade = grade
        self.inspection = inspection
        self.asked: list[tuple[Stage, ...]] = []

    async def inspect(self) -> Judged:
        self.asked.append((Stage.INSPECT,))
        return Judged(verdict(stages=(Stage.INSPECT,), inspection=self.inspection), "inspection")

    async def evaluate(self, files: Mapping[str, bytes], stages: tuple[Stage, ...]) -> Judged:
        self.asked.append(stages)
        return Judged(self.grade(dict(files)), f"evaluation-{len(self.asked)}")


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


# Test modules cannot import this file by name, so they get its parts as fixtures.


@pytest.fixture
def make_model() -> Callable[..., str]:
    return model_source


@pytest.fixture
def make_verdict() -> Callable[..., Evaluation]:
    return verdict


@pytest.fixture
def make_examiner() -> type[Examiner]:
    return Examiner
