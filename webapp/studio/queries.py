"""Looking up sessions, their turns and files."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from webapp.common.artifacts import artifact_store
from webapp.problems.models import Problem
from webapp.studio.models import FINAL_STATES, LIVE_STATES, Session, SessionState, Turn
from webapp.teams.queries import Visitor, teams_of
from workers.artifacts import get_files
from workers.protocol.codec import from_json
from workers.protocol.transcript import TranscriptEntry


def visible_to(user: Visitor) -> QuerySet[Session]:
    """The sessions of the user's teams, newest first."""
    mine = Session.objects.filter(team__in=teams_of(user).order_by())
    return mine.select_related("problem", "best_evaluation", "best_snapshot", "creator")


def sessions_of(problem: Problem) -> QuerySet[Session]:
    """The sessions of a problem, newest first."""
    return Session.objects.filter(problem=problem).select_related("best_evaluation", "creator")


def turns_of(session: Session) -> QuerySet[Turn]:
    """Finished turns in order."""
    return Turn.objects.filter(session=session).select_related("snapshot").order_by("number")


def transcript_of(session: Session) -> list[TranscriptEntry]:
    """The transcript of all finished turns."""
    store = artifact_store()
    entries: list[TranscriptEntry] = []
    for turn in turns_of(session):
        lines = store.get(turn.transcript_digest).decode().splitlines()
        entries += [from_json(TranscriptEntry, line) for line in lines]
    return entries


def best_files(session: Session) -> dict[str, bytes]:
    """The author's files of the best snapshot; empty while there is none."""
    if session.best_snapshot is None:
        return {}
    return get_files(artifact_store(), session.best_snapshot.digest)


def any_running() -> bool:
    """Whether a session runs or waits for a host; paused ones do not count."""
    return Session.objects.filter(state__in=LIVE_STATES).exclude(state=SessionState.PAUSED).exists()


def problems_with_ended_sessions() -> set[UUID]:
    """Problems on which a session has ended: somebody wants to see all about them."""
    ended = Session.objects.filter(state__in=FINAL_STATES)
    return set(ended.values_list("problem_id", flat=True).distinct())
