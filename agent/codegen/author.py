"""The built-in author: no key, no GPU, no chance. Looks, plans, writes, measures, and keeps the best."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.author import Delta, Ending, Reply, Task
from agent.codegen.ir import CannotGenerate, Graph
from agent.codegen.lowering import lower
from agent.codegen.plan import Kernel, plan
from agent.codegen.rules import RULES
from agent.codegen.search import Proposal, Trial, best_trial, propose
from agent.codegen.variant import Variant
from agent.codegen.writer import write_files
from agent.history import next_turn
from agent.tools.report import ratio_text
from workers.protocol.codec import Json, ProtocolError, from_data
from workers.protocol.inspection import Inspection
from workers.protocol.problem import Target, parse_problem_toml
from workers.protocol.transcript import ToolCall, TranscriptEntry
from workers.protocol.verdict import Evaluation, Ratio
from workers.workspace.layout import MODEL, PROBLEM_TOML


@dataclass(frozen=True)
class _Plan:
    graph: Graph
    inspection: Inspection
    kernels: list[Kernel]
    source: str
    threads: int

    def write(self, variant: Variant) -> dict[str, str]:
        """The files of a variant."""
        return write_files(self.graph, self.inspection, self.source, variant, self.threads)


class CodegenAuthor:
    """Reads the transcript, finds out how far it has come, and writes the next turn."""

    async def reply(self, task: Task, transcript: Sequence[TranscriptEntry], delta: Delta) -> Reply:
        """The next turn; see `agent.author.Author`."""
        # Planning and writing take some hundred milliseconds; other sessions share this loop.
        answer = await asyncio.to_thread(_next_reply, task, tuple(transcript))
        for piece in re.findall(r"\S+\s*", answer.text):
            await delta(piece)
        return answer


def _next_reply(task: Task, transcript: Sequence[TranscriptEntry]) -> Reply:
    turn = next_turn(transcript)
    if task.target is not Target.CPU:
        return _give_up(
            f"codegen writes kernels for the cpu target only, not for {task.target} yet."
        )
    seen = _results(transcript, "inspect")
    if not seen:
        call = ToolCall(f"t{turn}c1", "inspect", {})
        return Reply("I look at the graph first: operators, shapes, bytes.", (call,))
    try:
        inspection = _inspection(seen[-1])
        spec = parse_problem_toml(task.problem.get(PROBLEM_TOML, b"").decode())
        source = task.problem[MODEL].decode()
        graph = lower(inspection, RULES)
        made = _Plan(graph, inspection, plan(graph), source, spec.threads)
        return _try_next(turn, made, transcript)
    except (CannotGenerate, ProtocolError) as error:
        return _give_up(str(error))


def _try_next(turn: int, made: _Plan, transcript: Sequence[TranscriptEntry]) -> Reply:
    trials: list[Trial] = []
    for data in _results(transcript, "profile"):
        proposal = propose(trials, made.write)
        if proposal is None:
            break
        trials.append(Trial(proposal.variant, proposal.files, _verdict(data)))
    proposal = propose(trials, made.write)
    present = _present(transcript)
    if proposal is None:
        return _end(turn, trials, present)
    calls = _writes(turn, proposal.files, present)
    calls.append(ToolCall(f"t{turn}c{len(calls) + 1}", "profile", {}))
    return Reply(_told(made, trials, proposal), tuple(calls))


def _end(turn: int, trials: list[Trial], present: dict[str, str]) -> Reply:
    best = best_trial(trials)
    if best is None or best.speedup is None:
        summary = next(
            (t.evaluation.summary for t in reversed(trials) if t.evaluation), "no verdict"
        )
        return _give_up(f"No variant passed; the last verdict said: {summary}")
    text = f"Nothing better is left to try: {ratio_text(best.speedup)} against eager ({_short(best.variant)})."
    return Reply(text, tuple(_writes(turn, best.files, present)), Ending.DONE)


def _writes(turn: int, files: dict[str, str], present: dict[str, str]) -> list[ToolCall]:
    """Calls that bring the workspace from one set of files to another."""
    changed = [path for path in sorted(files) if files[path] != present.get(path)]
    return [
        ToolCall(f"t{turn}c{number}", "write", {"path": path, "content": files[path]})
        for number, path in enumerate(changed, 1)
    ]


def _told(made: _Plan, trials: list[Trial], proposal: Proposal) -> str:
    if not trials:
        return f"{_plan_text(made)} I {proposal.why}."
    return f"{_last_text(trials, best_trial(trials))} Next I try to {proposal.why}."


def _plan_text(made: _Plan) -> str:
    operators = len(made.inspection.nodes)
    moved = sum(node.bytes_read + node.bytes_written for node in made.inspection.nodes)
    kernels = made.kernels
    count = len(kernels)
    word = "All of it fits into one kernel" if count == 1 else f"That makes {count} kernels"
    shapes = "; ".join(_kernel_text(kernel) for kernel in kernels)
    return (
        f"Eager runs {operators} operators and moves {moved / 1e6:.1f} MB, where "
        f"{made.inspection.bytes_moved / 1e6:.1f} MB have to be touched. {word}: {shapes}."
    )


def _kernel_text(kernel: Kernel) -> str:
    if kernel.extent == 1:
        return f"{kernel.total:,} elements in one pass"
    rows = kernel.total // kernel.extent
    return f"{rows:,} rows of {kernel.extent:,}, each read from memory once and reduced while it is in cache"


def _last_text(trials: Sequence[Trial], best: Trial | None) -> str:
    last = trials[-1]
    if last.speedup is None:
        said = last.evaluation.summary if last.evaluation else "nothing"
        return f"No time came out of that: {said}"
    text = f"That gave {ratio_text(last.speedup)}"
    if best is last:
        return f"{text}{_why_best(last.speedup, trials)}."
    if best is not None and best.speedup is not None:
        by = " by its lower end" if last.speedup.median > best.speedup.median else ""
        return f"{text}; {ratio_text(best.speedup)} stays the best{by}, so I go back to it."
    return f"{text}."


def _why_best(speedup: Ratio, trials: Sequence[Trial]) -> str:
    """The best is what can be vouched for most, which need not be the highest median."""
    medians = [trial.speedup.median for trial in trials if trial.speedup is not None]
    if speedup.median >= max(medians):
        return ", the best so far"
    return (
        f". {max(medians):.2f}x was seen before, but less surely: at least {speedup.low:.2f}x is the most "
        "that can be vouched for so far, so this one counts as the best"
    )


def _short(variant: Variant) -> str:
    words = [f"{variant.width}-bit vectors" if variant.width else "vectors as the compiler likes"]
    words.append("streaming stores" if variant.stream else "plain stores")
    words.append(f"{variant.keep} kept between passes")
    return ", ".join(words + (["unrolled"] if variant.unroll else []))


def _present(transcript: Sequence[TranscriptEntry]) -> dict[str, str]:
    """The files that this author has written so far, as they are now."""
    calls = [call for entry in transcript for call in entry.tool_calls if call.tool == "write"]
    return {str(call.arguments["path"]): str(call.arguments["content"]) for call in calls}


def _results(transcript: Sequence[TranscriptEntry], tool: str) -> list[dict[str, Json]]:
    """Data of all results of a tool, in order; calls that were not run have none."""
    asked = {
        (entry.turn, call.id)
        for entry in transcript
        for call in entry.tool_calls
        if call.tool == tool
    }
    return [
        result.data
        for entry in transcript
        for result in entry.results
        if (entry.turn, result.id) in asked and isinstance(result.data, dict)
    ]


def _inspection(data: dict[str, Json]) -> Inspection:
    if data.get("inspection") is None:
        verdict = _verdict(data)
        said = verdict.summary if verdict else "no reason given"
        raise CannotGenerate(f"The problem cannot be inspected: {said}")
    return from_data(Inspection, data["inspection"])


def _verdict(data: dict[str, Json]) -> Evaluation | None:
    found = data.get("verdict")
    return None if found is None else from_data(Evaluation, found)


def _give_up(text: str) -> Reply:
    return Reply(text, ending=Ending.GAVE_UP)
