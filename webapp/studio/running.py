"""Running one hosted session, from the lease to its last state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agent import loop
from agent.author import Author
from agent.session import SessionInput, SessionResult
from webapp.common.artifacts import artifact_store
from webapp.common.database_thread import in_thread
from webapp.events.services import append
from webapp.problems.queries import files_of
from webapp.studio.leases import RETRY, LeaseLost, check_fence, release
from webapp.studio.models import HOSTED_STATES, Session, SessionState
from webapp.studio.queries import transcript_of, turns_of
from webapp.studio.seams import RemoteEvaluator, SiteControl, SiteListener, best_of
from webapp.studio.states import move
from webapp.studio.verdict_watch import VerdictWatch
from workers.artifacts import get_files
from workers.protocol.events import EventKind
from workers.protocol.problem import Target

logger = logging.getLogger(__name__)


Authors = Callable[[str], Author]
"""Makes the author of a name."""


async def run_session(session: Session, watch: VerdictWatch, authors: Authors) -> None:
    """Run a claimed session to its end and record how it ended.

    An error of ours gives the session back: it is taken up again behind its last finished turn, and is
    `crashed` when that fails too often. Cancelling this task leaves the state alone (see `host`).
    """
    try:
        given = await in_thread(session_input, session)
        result = await loop.run(
            given,
            authors(session.author),
            RemoteEvaluator(session, watch),
            SiteListener(session.pk, session.fence),
            SiteControl(session.pk, session.fence),
            settings.SHELLS,
        )
        await in_thread(_record, session, result)
    except LeaseLost as error:
        logger.warning("%s", error)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        logger.exception("session %s failed on our side", session.pk)
        await in_thread(_give_back, session.pk, session.fence, error)


def session_input(session: Session) -> SessionInput:
    """Where the loop begins: at the start, or behind the last finished turn."""
    last = turns_of(session).last()
    workspace: dict[str, bytes] = {}
    if last is not None and last.snapshot is not None:
        workspace = get_files(artifact_store(), last.snapshot.digest)
    used = (last.created_at - session.started_at) if last and session.started_at else None
    return SessionInput(
        problem=files_of(session.problem),
        target=Target(session.problem.target),
        transcript=tuple(transcript_of(session)),
        workspace=workspace,
        best=best_of(session),
        elapsed_seconds=max(0.0, used.total_seconds()) if used else 0.0,
    )


def stop_overdue(session_id: UUID, fence: int) -> None:
    """Record that a session was stopped without waiting for its next boundary."""
    reason = Session.objects.values_list("reason", flat=True).get(pk=session_id)
    move(session_id, (SessionState.STOPPING,), SessionState.STOPPED, reason, held_fence=fence)


def _record(session: Session, result: SessionResult) -> None:
    """Move to the final state. A stop that came too late for the loop to see still counts as the end."""
    target = SessionState(result.state.value)
    if not move(session.pk, HOSTED_STATES, target, result.reason, held_fence=session.fence):
        raise LeaseLost(f"session {session.pk} ended, but another host has it")


def _give_back(session_id: UUID, fence: int, error: Exception) -> None:
    text = f"Something failed on our side ({type(error).__name__}); the session is tried again."
    try:
        with transaction.atomic():
            check_fence(session_id, fence)
            turn = Session.objects.values_list("turn_count", flat=True).get(pk=session_id) + 1
            append(session_id, EventKind.MESSAGE, {"turn": turn, "role": "system", "text": text})
            release(session_id, fence, RETRY)
    except LeaseLost as lost:
        logger.warning("%s", lost)
