"""A verdict as text, for terminals and for the agent's observations."""

from __future__ import annotations

from workers.protocol.diagnostics import Diagnostic, Severity
from workers.protocol.verdict import ArmTiming, Evaluation, Ratio

_MOST_DIAGNOSTICS = 12


def as_text(evaluation: Evaluation) -> str:
    """A dozen lines: status, sentence, correctness, times, findings, diagnostics."""
    lines = [f"{str(evaluation.status).upper()}  {evaluation.summary}"]
    lines += _correctness(evaluation)
    lines += _timing(evaluation)
    lines += _problem_alone(evaluation)
    for finding in evaluation.findings:
        weight = "rejects" if finding.rejects else "note"
        claimed = ", the candidate's own claim" if finding.claimed else ""
        lines.append(f"  {finding.rule} ({weight}{claimed}): {finding.message}")
    lines += diagnostics_text(evaluation.diagnostics)
    if evaluation.snapshot and not evaluation.certified:
        lines.append("  uncertified: the reference is not one that the site vouches for")
    return "\n".join(lines)


def ratio_text(ratio: Ratio) -> str:
    """`1.83x (1.80 to 1.86)`."""
    return f"{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"


def diagnostics_text(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    """Errors first, then the rest, a bounded number of them."""
    ordered = sorted(diagnostics, key=lambda d: d.severity is not Severity.ERROR)
    lines = [_diagnostic(d) for d in ordered[:_MOST_DIAGNOSTICS]]
    if len(ordered) > _MOST_DIAGNOSTICS:
        lines.append(f"  ... and {len(ordered) - _MOST_DIAGNOSTICS} more")
    return lines


def _diagnostic(d: Diagnostic) -> str:
    place = d.file
    if d.line is not None:
        place += f":{d.line}"
    if d.column is not None:
        place += f":{d.column}"
    code = f" [{d.code}]" if d.code else ""
    return f"  {place or d.tool}: {d.severity}: {d.message}{code}"


def _correctness(evaluation: Evaluation) -> list[str]:
    correctness = evaluation.correctness
    if correctness is None:
        return []
    errors = [e for case in correctness.cases for e in case.outputs]
    worst = max(errors, key=lambda e: e.rms_error / max(e.rms_limit, 1e-300), default=None)
    right = sum(case.passed for case in correctness.cases)
    line = f"  correct on {right} of {len(correctness.cases)} fresh inputs against {correctness.reference}"
    if worst is not None:
        line += f"; worst relative RMS error {worst.rms_error:.2e} (limit {worst.rms_limit:.2e})"
    if correctness.timed_calls_checked:
        line += f"; {correctness.timed_calls_checked} timed blocks checked as well"
    return [line]


def _timing(evaluation: Evaluation) -> list[str]:
    timing = evaluation.timing
    if timing is None:
        return []
    arms = {"eager": timing.eager, "compile": timing.compile, "candidate": timing.candidate}
    lines = [f"  {_arm(name, arm)}" for name, arm in arms.items() if arm is not None]
    lines.append(f"  speed-up against eager {ratio_text(timing.speedup_eager)}")
    if timing.speedup_compile is not None:
        lines.append(f"  speed-up against torch.compile {ratio_text(timing.speedup_compile)}")
    if timing.host_bound:
        lines.append("  host-bound: below 0.1 ms the call itself dominates")
    if evaluation.held:
        lines.append("  held: above 10x a full evaluation has to confirm it")
    if evaluation.authorship is not None and evaluation.authorship.kernel_share is not None:
        lines.append(
            f"  {evaluation.authorship.kernel_share:.0%} of the time is in its own kernels"
        )
    return lines


def _arm(name: str, arm: ArmTiming) -> str:
    return f"{name:<10} {arm.per_call_ms:10.4f} ms a call"


def _problem_alone(evaluation: Evaluation) -> list[str]:
    lines = []
    if evaluation.inspection is not None:
        found = evaluation.inspection
        lines.append(
            f"  {found.flops / 1e6:.1f} MFLOP, {found.bytes_moved / 1e6:.1f} MB to touch once, "
            f"floor {found.floor_ms or 0.0:.3f} ms"
        )
        lines += [f"    {node.name:<24} {node.target:<34} {node.location}" for node in found.nodes]
    if evaluation.baseline is not None:
        base = evaluation.baseline
        lines += [f"  {_arm('eager', base.eager)}", f"  {_arm('compile', base.compile)}"]
        lines.append(f"  compiled in {base.compile_seconds:.1f} s")
    return lines
