"""Tools that ask the judge: inspect, compile, verify, profile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from agent.evaluator import Judged
from agent.tools.base import Bench, Observation, Tool
from agent.tools.report import describe, describe_inspection
from workers.protocol.codec import Json, to_data
from workers.protocol.problem import Stage


@dataclass(frozen=True)
class NoArguments:
    """These tools judge the workspace as it is."""


class Inspect(Tool[NoArguments]):
    """Shows the problem's graph."""

    name = "inspect"
    purpose = "Show the problem's operators, shapes, work, bytes and eager time."
    form = NoArguments

    async def run(self, bench: Bench, arguments: NoArguments) -> Observation:
        """The graph as text and as data under `inspection`."""
        judged = await bench.inspect()
        evaluation = judged.evaluation
        inspection = evaluation.inspection
        text = describe(evaluation)
        if inspection is not None:
            text = f"{text}\n{describe_inspection(inspection)}"
        data: dict[str, Json] = {"verdict": compact(judged), "inspection": to_data(inspection)}
        return Observation(text, evaluation.summary, data)


class _Judging(Tool[NoArguments]):
    form = NoArguments
    stages: ClassVar[tuple[Stage, ...]]

    async def run(self, bench: Bench, arguments: NoArguments) -> Observation:
        """The verdict as text and as data under `verdict`."""
        judged = await bench.judge(self.stages)
        evaluation = judged.evaluation
        summary = f"{evaluation.status}: {evaluation.summary}"
        return Observation(describe(evaluation), summary, {"verdict": compact(judged)})


class Compile(_Judging):
    """Builds."""

    name = "compile"
    purpose = "Build the kernels and their binding; shows every diagnostic."
    stages = (Stage.BUILD,)


class Verify(_Judging):
    """Builds and compares."""

    name = "verify"
    purpose = "Build, run and compare with the reference."
    stages = (Stage.BUILD, Stage.VERIFY)


class Profile(_Judging):
    """Builds, compares and times."""

    name = "profile"
    purpose = "Build, compare and time against eager: the speed-up counts."
    stages = (Stage.BUILD, Stage.VERIFY, Stage.TIME)


def compact(judged: Judged) -> Json:
    """A verdict without its raw blocks and its graph, which would only swell the transcript."""
    evaluation = replace(judged.evaluation, inspection=None)
    if evaluation.timing is not None:
        evaluation = replace(evaluation, timing=replace(evaluation.timing, blocks=()))
    if evaluation.baseline is not None:
        evaluation = replace(evaluation, baseline=replace(evaluation.baseline, blocks=()))
    return to_data(evaluation)
