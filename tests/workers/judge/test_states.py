"""Every state of a verdict can be reached, and says in one sentence what happened."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from workers.evaluation.device import DeviceSupervisor
from workers.protocol.problem import Stage, Tier
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Status

CORRECT = (Stage.BUILD, Stage.VERIFY)

MODEL_NEW = """
import os
import torch
import torch.nn as nn
import kernel_ops

class ModelNew(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.scale = scale
        self.bias = nn.Parameter(torch.zeros(features))
        {init}

    def forward(self, x):
        {forward}
        return kernel_ops.bias_gelu(x, self.bias, self.scale)
"""


def model_new(forward: str = "pass", init: str = "pass") -> dict[str, str]:
    return {"model_new.py": MODEL_NEW.format(forward=forward, init=init)}


def test_a_right_kernel_passes_verification(workshop: Any) -> None:
    evaluation = workshop.judge(model_new(), CORRECT)
    assert evaluation.status is Status.PASSED, evaluation.summary
    assert evaluation.correctness.reference == "fp64"
    assert len(evaluation.correctness.cases) == 5
    assert evaluation.timing is None


def test_a_full_evaluation_loads_a_second_parameter_set(workshop: Any) -> None:
    once = (
        "self.folded = self.bias.detach().clone() if not hasattr(self, 'folded') else self.folded"
    )
    files = model_new(once)
    files["model_new.py"] = files["model_new.py"].replace(
        "(x, self.bias, self.scale)", "(x, self.folded, self.scale)"
    )
    assert workshop.judge(files, CORRECT).status is Status.PASSED
    assert workshop.judge(files, CORRECT, tier=Tier.FULL).status is Status.INCORRECT


@pytest.mark.parametrize(
    ("status", "changes", "sentence"),
    [
        (Status.COMPILE_ERROR, {"kernels/bias_gelu.cpp": "int f( {"}, "bias_gelu.cpp"),
        (Status.LINK_ERROR, {"kernels/bias_gelu.cpp": "int f() { return 1; }"}, "ws_bias_gelu"),
        (Status.LOAD_ERROR, {"model_new.py": "def broken(:"}, "model_new.py"),
        (Status.LOAD_ERROR, {"model_new.py": "x = 1"}, "ModelNew"),
        (Status.LOAD_ERROR, model_new(init="raise ValueError('no')"), "no"),
        (Status.RUNTIME_ERROR, model_new("raise KeyError('nope')"), "nope"),
        (Status.RUNTIME_ERROR, model_new("os.kill(os.getpid(), 11)"), "signal 11"),
        (Status.RUNTIME_ERROR, model_new("x = x.double()"), "float32"),
        (Status.OUT_OF_MEMORY, model_new("torch.empty(1 << 40)"), "memory"),
        (Status.TIMEOUT, model_new("while True: pass"), "no answer in time"),
        (Status.INCORRECT, model_new("x = x + 1"), "differs"),
    ],
)
def test_it_says_what_happened(
    workshop: Any, status: Status, changes: dict[str, str], sentence: str
) -> None:
    evaluation = workshop.judge(changes, CORRECT)
    assert evaluation.status is status, evaluation.summary
    text = evaluation.summary + str(evaluation.diagnostics)
    assert sentence in text
    assert "\n" not in evaluation.summary


def test_a_missing_artifact_is_our_fault(workshop: Any) -> None:
    evaluation = workshop.supervisor.run(EvaluateRequest("0" * 64, "", (Stage.INSPECT,)))
    assert evaluation.status is Status.INFRASTRUCTURE


def test_a_killed_judge_is_our_fault_and_the_next_one_works(workshop: Any) -> None:
    workshop.supervisor.close()
    workshop.supervisor = DeviceSupervisor(workshop.config, workshop.store)
    others = processes_of("workers.device.judge")
    workshop.supervisor.warm()
    (judge,) = processes_of("workers.device.judge") - others
    standing_by = processes_of("workers.device")

    def kill() -> None:
        deadline = time.monotonic() + 60
        while processes_of("workers.device") <= standing_by and time.monotonic() < deadline:
            time.sleep(0.02)  # the build is still at work, no runner has been forked
        time.sleep(0.5)
        os.kill(judge, signal.SIGKILL)

    threading.Thread(target=kill).start()
    evaluation = workshop.judge(model_new("import time; time.sleep(2)"), CORRECT)
    assert evaluation.status is Status.INFRASTRUCTURE
    assert workshop.judge(model_new(), CORRECT).status is Status.PASSED


def test_nothing_is_left_behind(workshop: Any) -> None:
    workshop.supervisor.close()
    workshop.supervisor = DeviceSupervisor(workshop.config, workshop.store)
    time.sleep(0.2)
    before = processes_of("workers.device")
    workshop.judge(model_new("while True: pass"), CORRECT)
    workshop.supervisor.close()
    time.sleep(0.2)
    assert processes_of("workers.device") - before == set()
    workshop.supervisor = DeviceSupervisor(workshop.config, workshop.store)


def processes_of(module: str) -> set[int]:
    """Those that descend from this process; other tests may keep a site with a warm crew."""
    return {pid for pid, command in descendants_commands().items() if module in command}


def descendants_commands() -> dict[int, str]:
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                commands[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().decode(errors="replace")
                )
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    ours = {os.getpid()}
    for _ in range(10):
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return {pid: commands[pid] for pid in ours if pid in commands}
