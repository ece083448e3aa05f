"""Starting sessions, and asking running ones to pause or stop.

A request is a move of the state (`pausing`, `stopping`); the host acknowledges it at the next tool
boundary with the next move. Both are events.
"""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from webapp.common.errors import UserError
from webapp.evaluations.models import Baseline
from webapp.evaluations.queries import baseline_of
from webapp.events.bells import call_for_hosts
from webapp.events.services import append, open_stream
from webapp.problems.models import Problem, ProblemState
from webapp.studio.models import FINAL_STATES, LIVE_STATES, Session, SessionState
from webapp.studio.states import move
from webapp.teams.models import User
from webapp.teams.queries import is_member
from workers.protocol.events import EventKind

AUTHORS = ("codegen",)
"""Authors that people may choose."""

MAX_LIVE_PER_TEAM = 20

WAITS_FOR_CHECK = "It begins when the judge has checked the problem."

_S = SessionState


def create_session(user: User, problem: Problem, author: str = AUTHORS[0]) -> Session:
    """Queue a session and call for a host. Raises `UserError`.

    A problem that is still being checked may have one: it begins when the problem is ready.
    """
    _check_member(user, problem)
    if author not in AUTHORS:
        raise UserError(
            f"There is no author {author[:60]!r}; use one of {', '.join(AUTHORS)}.", "author"
        )
    if problem.state == ProblemState.REFUSED:
        raise UserError(f"The problem was refused: {problem.reason}", "problem")
    live = Session.objects.filter(team=problem.team, state__in=LIVE_STATES).count()
    if live >= MAX_LIVE_PER_TEAM:
        raise UserError(f"{live} sessions of your team are running; wait for one or stop one.")
    with transaction.atomic():
        reason = WAITS_FOR_CHECK if problem.state == ProblemState.CHECKING else ""
        session = Session.objects.create(
            team=problem.team, problem=problem, creator=user, author=author, reason=reason
        )
        open_stream(session.pk, problem.team)
        append(session.pk, EventKind.SESSION_STATE, {"state": _S.QUEUED.value, "reason": reason})
        baseline = baseline_of(problem)
        if baseline is not None:
            announce_baseline(session, baseline)
        transaction.on_commit(call_for_hosts)
    return session


def stop_session(user: User, session: Session) -> Session:
    """Stop a session: at once when no host has it, else as soon as its host can. Raises `UserError`."""
    _check_member(user, session.problem)
    return stop_as_admin(user.get_username(), session)


def stop_as_admin(name: str, session: Session) -> Session:
    """The same for somebody whose right to do so was checked elsewhere."""
    reason = f"At {name}'s request."
    if not move(session.pk, (_S.QUEUED,), _S.STOPPED, reason) and not move(
        session.pk,
        (_S.RUNNING, _S.PAUSING, _S.PAUSED),
        _S.STOPPING,
        reason,
        stop_requested_at=timezone.now(),
    ):
        _refuse_when_over(session)
    return _called(session)


def pause_session(user: User, session: Session) -> Session:
    """Pause a session at its next tool boundary. Raises `UserError`."""
    _check_member(user, session.problem)
    if not move(session.pk, (_S.RUNNING,), _S.PAUSING, f"At {user.get_username()}'s request."):
        _refuse_when_over(session)
        if Session.objects.get(pk=session.pk).state == _S.QUEUED:
            raise UserError("The session has not begun yet; pause it when it runs.")
    return _called(session)


def resume_session(user: User, session: Session) -> Session:
    """Let a paused session go on. Raises `UserError`."""
    _check_member(user, session.problem)
    reason = f"Resumed by {user.get_username()}."
    if not move(session.pk, (_S.PAUSING, _S.PAUSED), _S.RUNNING, reason):
        _refuse_when_over(session)
    return _called(session)


def announce_baseline(session: Session, baseline: Baseline) -> None:
    """Tell a session what torch.compile gains on its problem."""
    append(
        session.pk,
        EventKind.BASELINE,
        {
            "status": "passed",
            "compile_over_eager": baseline.ratio_median,
            "low": baseline.ratio_low,
            "high": baseline.ratio_high,
        },
    )


def announce_baselines() -> int:
    """Tell all sessions of problems whose torch.compile ratio has become known; returns how many were."""
    told = 0
    for baseline in Baseline.objects.filter(announced_at=None):
        with transaction.atomic():
            mine = Baseline.objects.filter(pk=baseline.pk, announced_at=None)
            if mine.update(announced_at=timezone.now()) != 1:
                continue
            for session in Session.objects.filter(problem_id=baseline.problem_id):
                announce_baseline(session, baseline)
                told += 1
    return told


def _check_member(user: User, problem: Problem) -> None:
    if not is_member(user, problem.team_id):
        raise UserError("You are not a member of this team.")


def _refuse_when_over(session: Session) -> None:
    state = Session.objects.get(pk=session.pk).state
    if state in FINAL_STATES:
        raise UserError(f"The session is already {state}.")


def _called(session: Session) -> Session:
    call_for_hosts()
    session.refresh_from_db()
    return session
