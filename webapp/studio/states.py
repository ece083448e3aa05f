"""Moves of a session from state to state: compare-and-set, with the event in the same transaction."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from webapp.evaluations.attempts import withdraw
from webapp.events.services import append
from webapp.studio.models import FINAL_STATES, Session, SessionState
from workers.protocol.events import EventKind


def move(
    session_id: UUID,
    sources: Collection[SessionState],
    target: SessionState,
    reason: str = "",
    *,
    held_fence: int | None = None,
    **fields: Any,
) -> bool:
    """Move a session that is in one of the source states; tells whether this call did it.

    With a fence only the host that holds the session under it may. Further fields are set along with the state.
    """
    with transaction.atomic():
        rows = Session.objects.filter(pk=session_id, state__in=sources)
        if held_fence is not None:
            rows = rows.filter(fence=held_fence)
        if target in FINAL_STATES:
            fields = {"finished_at": timezone.now(), "lease_until": None, **fields}
        if rows.update(state=target, reason=reason, **fields) != 1:
            return False
        append(session_id, EventKind.SESSION_STATE, {"state": target.value, "reason": reason})
        if target in FINAL_STATES:
            withdraw_question(session_id)
    return True


def withdraw_question(session_id: UUID) -> None:
    """Take back what a run of the session has asked the judge: it waits no longer."""
    asked = Session.objects.values_list("open_evaluation", flat=True).get(pk=session_id)
    if asked is not None:
        withdraw(asked)
