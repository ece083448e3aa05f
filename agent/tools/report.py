"""Verdicts and graphs as text for authors."""

from __future__ import annotations

from workers.protocol.codec import Json
from workers.protocol.inspection import GraphNode, Inspection, TensorInfo
from workers.protocol.verdict import Evaluation, OutputError, Ratio, Timing

_MAX_DIAGNOSTICS = 40


def describe(evaluation: Evaluation) -> str:
    """All of a verdict that helps to write a better candidate."""
    lines = [f"{evaluation.status}: {evaluation.summary}"]
    for item in evaluation.diagnostics[:_MAX_DIAGNOSTICS]:
        place = ":".join(str(p) for p in (item.file, item.line, item.column) if p)
        code = f" [{item.code}]" if item.code else ""
        lines.append(f"{place or item.tool}: {item.severity}: {item.message}{code}")
    left = len(evaluation.diagnostics) - _MAX_DIAGNOSTICS
    if left > 0:
        lines.append(f"({left} more diagnostics)")
    for finding in evaluation.findings:
        lines.append(f"finding {finding.rule}: {finding.message}")
    if evaluation.correctness is not None:
        for case in evaluation.correctness.cases:
            lines.extend(_output_line(case.name, output) for output in case.outputs)
    if evaluation.timing is not None:
        lines.extend(_timing_lines(evaluation.timing))
    if evaluation.held:
        lines.append("held: above 10x, to be confirmed by a full evaluation")
    return "\n".join(lines)


def ratio_text(ratio: Ratio) -> str:
    """Such as `2.13x [2.10, 2.16]`."""
    return f"{ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"


def describe_inspection(inspection: Inspection) -> str:
    """The graph, one line per value and node, and the totals."""
    lines = []
    for value in inspection.values:
        tensor = _tensor(value.tensor) if value.tensor else str(value.value)
        lines.append(f"{value.kind:9s} {value.name}: {tensor}  ({value.source})")
    lines.extend(_node_line(node) for node in inspection.nodes)
    returned = ", ".join(_argument(item) for item in inspection.outputs)
    lines.append(f"returns {inspection.output_structure}: {returned}")
    lines.append(f"work: {inspection.flops:,} FLOP; bytes to touch: {inspection.bytes_moved:,}")
    if inspection.eager_ms is not None:
        floor = f", floor {inspection.floor_ms:.3f} ms" if inspection.floor_ms is not None else ""
        lines.append(f"eager: {inspection.eager_ms:.3f} ms{floor}")
    lines.extend(f"note: {note}" for note in inspection.notes)
    return "\n".join(lines)


def _output_line(case: str, output: OutputError) -> str:
    word = "ok" if output.passed else "WRONG"
    text = (
        f"{case} {output.path or 'output'}: {word}, error rms {output.rms_error:.2e} "
        f"(limit {output.rms_limit:.2e}), max {output.max_error:.2e} (limit {output.max_limit:.2e})"
    )
    if output.first_bad_index is not None:
        text += (
            f"; first at {list(output.first_bad_index)}: "
            f"expected {output.expected}, got {output.actual}"
        )
    return f"{text}; {output.message}" if output.message else text


def _timing_lines(timing: Timing) -> list[str]:
    lines = [
        f"eager {timing.eager.per_call_ms:.4f} ms, candidate {timing.candidate.per_call_ms:.4f} ms "
        f"per call; speed-up {ratio_text(timing.speedup_eager)} from {timing.speedup_eager.pairs} pairs"
    ]
    if timing.speedup_compile is not None:
        lines.append(f"against torch.compile: {ratio_text(timing.speedup_compile)}")
    if timing.host_bound:
        lines.append("below 0.1 ms per call the call itself dominates")
    return lines


def _tensor(tensor: TensorInfo) -> str:
    return f"{tensor.dtype}[{', '.join(str(size) for size in tensor.shape)}]"


def _argument(item: Json) -> str:
    if isinstance(item, dict):
        if set(item) == {"node"}:
            return f"%{item['node']}"
        return str(next(iter(item.values()), ""))
    if isinstance(item, list):
        return f"[{', '.join(_argument(part) for part in item)}]"
    return str(item)


def _node_line(node: GraphNode) -> str:
    arguments = [_argument(item) for item in node.args]
    arguments += [f"{key}={_argument(item)}" for key, item in node.kwargs.items()]
    made = ", ".join(_tensor(item) for item in node.outputs)
    place = f"  # {node.location}" if node.location else ""
    return (
        f"%{node.name} = {node.target}({', '.join(arguments)}) -> {made}"
        f"  {node.flops:,} FLOP{place}"
    )
