"""The pages' values: domain rows and verdicts put together for one template each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from webapp.common.artifacts import artifact_store
from webapp.common.formats import shape
from webapp.common.source_view import FileView, file_views, line_anchor
from webapp.common.words import words_as_data
from webapp.evaluations.models import Baseline, Evaluation
from webapp.evaluations.presentation import (
    OutputRow,
    compared_calls,
    limits_of,
    output_rows,
    plot_series,
    severities,
)
from webapp.evaluations.queries import (
    baseline_of,
    baseline_pending,
    inspect_evaluation,
    speedup_compile,
)
from webapp.events.queries import iso
from webapp.problems.models import Problem, ProblemState
from webapp.studio.models import LIVE_STATES, Session, SessionState
from webapp.studio.page_queries import check_failed, session_behind, whole_log
from webapp.studio.queries import sessions_of
from webapp.studio.timeline import Item, Timeline, Turn, blank_parts, timeline_of
from workers.artifacts import ArtifactMissing, get_files
from workers.protocol.codec import Json
from workers.protocol.inspection import GraphNode, Inspection
from workers.protocol.verdict import Evaluation as Verdict
from workers.protocol.verdict import Ratio


@dataclass(frozen=True)
class OperatorRow:
    """One call of an operator in the model's graph."""

    number: int
    operator: str
    overload: str
    shapes: list[str]
    """Of its results; the first one is what people look for."""
    flops: int
    moved_bytes: int
    place: str
    anchor: str


@dataclass(frozen=True)
class ProblemPage:
    """templates/problems/detail.html"""

    problem: Problem
    files: list[FileView]
    evaluation: Evaluation | None
    inspection: Inspection | None
    operators: list[OperatorRow]
    sessions: list[Session]
    baseline: Baseline | None
    waiting: bool
    """Whether the page will look different soon without anybody doing something."""
    baseline_coming: bool
    our_fault: bool
    """Whether it was refused because the judge could not look at it."""

    @property
    def mutants_caught(self) -> int:
        """Wrong answers that the problem's comparison refused."""
        tried = self.inspection.mutants if self.inspection else ()
        return sum(mutant.caught for mutant in tried)

    @property
    def mutants_missed(self) -> list[str]:
        """Wrong answers that it let pass, by name."""
        tried = self.inspection.mutants if self.inspection else ()
        return [mutant.name for mutant in tried if not mutant.caught]


@dataclass(frozen=True)
class LivePage:
    """templates/studio/session.html"""

    session: Session
    timeline: Timeline
    files: list[FileView]
    data: dict[str, Json]
    """For static/js/live.js."""
    can_stop: bool
    baseline_coming: bool
    """Whether torch.compile's ratio may still become known."""
    parts: list[Turn | Item] = field(default_factory=blank_parts)


@dataclass(frozen=True)
class VerdictPage:
    """templates/evaluations/detail.html"""

    evaluation: Evaluation
    verdict: Verdict | None
    state: str
    """The verdict's status, or how far the evaluation is."""
    session: Session | None
    files: list[FileView]
    compile: Ratio | None
    compile_pending: bool
    rows: list[OutputRow] = field(default_factory=list)
    compared_calls: int = 0
    series: list[dict[str, Json]] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def problem_page(problem: Problem) -> ProblemPage:
    """Everything about one problem."""
    evaluation = inspect_evaluation(problem)
    verdict = evaluation.verdict if evaluation else None
    inspection = verdict.inspection if verdict else None
    sessions = list(sessions_of(problem)[:50])
    checking = problem.state == "checking"
    return ProblemPage(
        problem=problem,
        files=stored_files(problem.digest),
        evaluation=evaluation,
        inspection=inspection,
        operators=operator_rows(inspection.nodes) if inspection else [],
        sessions=sessions,
        baseline=baseline_of(problem),
        waiting=checking or any(session.state in LIVE_STATES for session in sessions),
        baseline_coming=baseline_pending(problem),
        our_fault=problem.state == ProblemState.REFUSED and check_failed(problem),
    )


def operator_rows(nodes: Iterable[GraphNode]) -> list[OperatorRow]:
    """The graph as a table, in the order of execution."""
    return [
        OperatorRow(
            number=number,
            operator=node.target.removeprefix("aten.").partition(".")[0],
            overload=node.target,
            shapes=[shape(info.shape, info.dtype) for info in node.outputs],
            flops=node.flops,
            moved_bytes=node.bytes_read + node.bytes_written,
            place=node.location,
            anchor=line_anchor(node.location),
        )
        for number, node in enumerate(nodes, start=1)
    ]


def live_page(session: Session) -> LivePage:
    """A session as far as it has come."""
    timeline = timeline_of(whole_log(session))
    points: list[Json] = [*timeline.points]
    return LivePage(
        session=session,
        timeline=timeline,
        files=stored_files(timeline.snapshot, timeline.changed),
        data={
            "state": session.state,
            "title": f"{session.problem.title} · Warpsmith",
            "started": iso(session.started_at) if session.started_at else None,
            "ended": iso(session.finished_at) if session.finished_at else None,
            "points": points,
            "baseline": timeline.baseline,
            "words": words_as_data(),
        },
        can_stop=session.state in LIVE_STATES and session.state != SessionState.STOPPING,
        baseline_coming=session.problem.state == ProblemState.CHECKING
        or baseline_pending(session.problem),
    )


def stored_files(
    digest: str, changed: Iterable[str] = (), marks: Mapping[tuple[str, int], str] | None = None
) -> list[FileView]:
    """The files of a set that the caller may see; none when they are gone or nothing was written yet."""
    if not digest:
        return []
    try:
        return file_views(get_files(artifact_store(), digest), changed, marks)
    except ArtifactMissing:
        return []


def verdict_page(evaluation: Evaluation) -> VerdictPage:
    """A verdict, or how far it is."""
    verdict = evaluation.verdict
    if verdict is None:
        return VerdictPage(
            evaluation=evaluation,
            verdict=None,
            state=evaluation.state,
            session=session_behind(evaluation),
            files=[],
            compile=None,
            compile_pending=False,
        )
    digest = verdict.snapshot or verdict.problem
    compared = speedup_compile(evaluation)
    return VerdictPage(
        evaluation=evaluation,
        verdict=verdict,
        state=verdict.status.value,
        session=session_behind(evaluation),
        files=stored_files(digest, marks=severities(verdict)),
        compile=compared,
        compile_pending=compared is None
        and verdict.timing is not None
        and baseline_pending(evaluation.problem),
        rows=output_rows(verdict),
        compared_calls=compared_calls(verdict),
        series=plot_series(verdict.timing) if verdict.timing else [],
        limits=limits_of(verdict),
    )
