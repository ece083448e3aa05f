"""Leases: which host runs which session, and who may write for it.

A host takes a session by compare-and-set and gets a fence. It renews the lease while it lives; when the
lease has run out, or the host is known to have died, another host takes the session with a higher fence,
and the former may write nothing any more, however late it wakes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from webapp.common.artifacts import alive_folder
from webapp.events.services import append
from webapp.problems.models import ProblemState
from webapp.studio.models import HOSTED_STATES, Session, SessionState
from webapp.studio.states import move
from workers.presence import is_gone
from workers.protocol.events import EventKind

LEASE = timedelta(seconds=15)

MAX_ADOPTIONS = 3
"""Take-overs in a row without a finished turn between them; after that the session is `crashed`."""

RETRY = timedelta(seconds=2)
"""How long a session rests after it failed on our side."""


class LeaseLost(Exception):
    """Another host has the session; whatever the former does for it is void."""


def claim(host: str) -> Session | None:
    """Take a queued session, or one whose host is gone; None when there is none to take.

    A session may be queued while its problem is still being checked; it is not taken before the problem
    is ready, and fails when the problem is refused.
    """
    _fail_on_refused_problems()
    for session in _waiting()[:20]:
        taken = (
            _begin(session, host) if session.state == SessionState.QUEUED else _adopt(session, host)
        )
        if taken:
            return Session.objects.select_related("problem__team").get(pk=session.pk)
    return None


def renew(host: str, held: Mapping[UUID, int]) -> set[UUID]:
    """Prolong the leases of a host; returns the sessions that others have taken."""
    until = timezone.now() + LEASE
    lost: set[UUID] = set()
    for session_id, fence in held.items():
        mine = Session.objects.filter(pk=session_id, fence=fence)
        running = mine.filter(host=host, state__in=HOSTED_STATES)
        if running.update(lease_until=until) != 1 and not mine.exists():
            lost.add(session_id)
    return lost


def release(session_id: UUID, fence: int, rest: timedelta = timedelta(0)) -> None:
    """Give a session back, so that a host may take it after a rest."""
    Session.objects.filter(pk=session_id, fence=fence, state__in=HOSTED_STATES).update(
        lease_until=timezone.now() + rest, host=""
    )


def check_fence(session_id: UUID, fence: int) -> None:
    """Inside a transaction: lock the session's row, or raise `LeaseLost` if the fence is not the newest."""
    mine = Session.objects.select_for_update().filter(pk=session_id, fence=fence)
    if not mine.filter(state__in=HOSTED_STATES).exists():
        raise LeaseLost(f"session {session_id} has gone to another host")


def overdue_stops(held: Mapping[UUID, int], patience: timedelta) -> set[UUID]:
    """Sessions among those held that were asked to stop longer ago than a host should need."""
    before = timezone.now() - patience
    rows = Session.objects.filter(
        pk__in=held, state=SessionState.STOPPING, stop_requested_at__lt=before
    )
    return set(rows.values_list("pk", flat=True))


def _waiting() -> list[Session]:
    now = timezone.now()
    over = Q(lease_until=None) | Q(lease_until__lt=now) | Q(host__in=_dead_hosts())
    abandoned = Q(state__in=HOSTED_STATES) & over
    begun = Q(state=SessionState.QUEUED, problem__state=ProblemState.READY)
    rows = Session.objects.filter(begun | abandoned)
    return list(rows.order_by("created_at")[:20])


def _dead_hosts() -> list[str]:
    """Hosts that still hold leases but are known to be gone."""
    hosts = Session.objects.filter(state__in=HOSTED_STATES).exclude(host="")
    names = hosts.values_list("host", flat=True).order_by("host").distinct()
    return [name for name in names if is_gone(alive_folder(), name)]


def _fail_on_refused_problems() -> None:
    refused = Session.objects.filter(state=SessionState.QUEUED, problem__state=ProblemState.REFUSED)
    for session in refused.select_related("problem"):
        reason = f"The problem was refused: {session.problem.reason}"
        move(session.pk, (SessionState.QUEUED,), SessionState.FAILED, reason)


def _begin(session: Session, host: str) -> bool:
    now = timezone.now()
    return move(
        session.pk,
        (SessionState.QUEUED,),
        SessionState.RUNNING,
        host=host,
        lease_until=now + LEASE,
        fence=F("fence") + 1,
        started_at=now,
    )


def _adopt(session: Session, host: str) -> bool:
    """Take over an abandoned session; False when it was gone already or needs no host any more."""
    if session.state == SessionState.STOPPING:
        move(
            session.pk,
            (SessionState.STOPPING,),
            SessionState.STOPPED,
            session.reason,
            held_fence=session.fence,
        )
        return False
    if session.adoptions >= MAX_ADOPTIONS:
        reason = (
            f"It failed on our side {session.adoptions + 1} times in turn {session.turn_count + 1}."
        )
        move(session.pk, HOSTED_STATES, SessionState.CRASHED, reason, held_fence=session.fence)
        return False
    with transaction.atomic():
        same = Session.objects.filter(pk=session.pk, fence=session.fence, state=session.state)
        adopted = same.update(
            host=host,
            lease_until=timezone.now() + LEASE,
            fence=F("fence") + 1,
            adoptions=F("adoptions") + 1,
        )
        if adopted:
            _tell(session)
    return adopted == 1


def _tell(session: Session) -> None:
    behind = f"behind turn {session.turn_count}" if session.turn_count else "from the start"
    text = f"The process that ran this session is gone. Another one goes on {behind}, with a new shell."
    append(
        session.pk,
        EventKind.MESSAGE,
        {"turn": session.turn_count + 1, "role": "system", "text": text},
    )
