"""What the pages read beside the domain's own queries: rows with the numbers that a list shows."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import Http404

from webapp.evaluations.models import Evaluation
from webapp.events.models import LogEntry
from webapp.events.queries import PAGE, after, as_event
from webapp.problems.models import Problem
from webapp.problems.queries import visible_to as problems_of
from webapp.studio.models import LIVE_STATES, Session, SessionState
from webapp.teams.queries import Visitor
from workers.protocol.events import Event, EventKind
from workers.protocol.problem import Stage
from workers.protocol.verdict import Status

NOTHING_CAME_OUT = (SessionState.FAILED, SessionState.CRASHED)

MAX_EVENTS = 20_000
"""A page shows no longer log than this; the rest is read over REST."""


@dataclass(frozen=True)
class ProblemRow:
    """One line of the list of problems."""

    problem: Problem
    sessions: int
    live_session: Session | None
    best: Evaluation | None
    failed: Session | None
    """The newest session, where it ended without a kernel and none came out of another: says why."""
    eager_ms: float | None


def problem_list(user: Visitor) -> QuerySet[Problem]:
    """The user's problems, newest first, with what `problem_rows` needs."""
    timed = Evaluation.objects.filter(problem=OuterRef("pk"), eager_ms__isnull=False)
    alone = timed.filter(snapshot=None).order_by("-created_at")
    return (
        problems_of(user)
        .annotate(
            session_count=Count("sessions", distinct=True),
            eager_alone=Subquery(alone.values("eager_ms")[:1]),
        )
        .order_by("-created_at")
    )


def problem_rows(problems: list[Problem]) -> list[ProblemRow]:
    """The lines of one page of the list, with two more queries whatever its length."""
    ids = [problem.pk for problem in problems]
    sessions = Session.objects.filter(problem__in=ids).select_related("best_evaluation")
    best: dict[object, Evaluation] = {}
    live: dict[object, Session] = {}
    failed: dict[object, Session] = {}
    telling = Q(best_evaluation__isnull=False) | Q(state__in=(*LIVE_STATES, *NOTHING_CAME_OUT))
    for session in sessions.filter(telling):
        if session.state in LIVE_STATES:
            live.setdefault(session.problem_id, session)
        elif session.state in NOTHING_CAME_OUT:
            failed.setdefault(session.problem_id, session)
        found = session.best_evaluation
        if found is not None and _beats(found, best.get(session.problem_id)):
            best[session.problem_id] = found
    return [
        ProblemRow(
            problem=problem,
            sessions=getattr(problem, "session_count", 0),
            live_session=live.get(problem.pk),
            best=best.get(problem.pk),
            failed=None if problem.pk in best else failed.get(problem.pk),
            eager_ms=getattr(problem, "eager_alone", None),
        )
        for problem in problems
    ]


def check_failed(problem: Problem) -> bool:
    """Whether the newest check of a problem ended by a fault of ours, which says nothing about its file."""
    looks = Evaluation.objects.filter(problem=problem, snapshot=None).order_by("-created_at")
    newest = next((look for look in looks if Stage.INSPECT.value in look.stages), None)
    return newest is not None and newest.status == Status.INFRASTRUCTURE.value


def whole_log(session: Session) -> list[Event]:
    """All events of a session so far."""
    events: list[Event] = []
    while len(events) < MAX_EVENTS:
        page = after(session.pk, len(events))
        events += page
        if len(page) < PAGE:
            break
    return events


def snapshot_event(session: Session, digest: str) -> Event:
    """The event in which the session announced a snapshot; raises `Http404` for any other digest."""
    announced = LogEntry.objects.filter(
        stream_id=session.pk, kind=EventKind.SNAPSHOT.value, body__digest=digest
    )
    entry = announced.order_by("-seq").first()
    if entry is None:
        raise Http404("no such snapshot in this session")
    return as_event(entry)


def session_behind(evaluation: Evaluation) -> Session | None:
    """The session whose author wrote the evaluated files, where there is one."""
    if evaluation.snapshot is None:
        return None
    sessions = Session.objects.filter(team=evaluation.team_id, problem=evaluation.problem_id)
    mine = Q(turns__snapshot=evaluation.snapshot_id) | Q(best_evaluation=evaluation.pk)
    return sessions.filter(mine).order_by("created_at").first()


def _beats(one: Evaluation, other: Evaluation | None) -> bool:
    """By what can be vouched for: the lower end of the interval."""
    if other is None:
        return one.speedup_low is not None
    return (one.speedup_low or 0) > (other.speedup_low or 0)
