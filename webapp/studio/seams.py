"""What the agent's loop sees of the site: evaluator, listener and control of one hosted session.

Everything that is written carries the host's fence: a host that has lost its lease gets `LeaseLost`
instead of writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F

from agent.errors import Cancelled
from agent.evaluator import Judged
from agent.listener import finished_body
from agent.session import Best, TurnRecord
from webapp.common.artifacts import artifact_store
from webapp.common.database_thread import in_thread
from webapp.evaluations.models import Evaluation, EvaluationState, Snapshot
from webapp.evaluations.queries import inspect_evaluation
from webapp.evaluations.services import keep_snapshot, request_evaluation
from webapp.events.bells import send_delta
from webapp.events.services import append
from webapp.studio.leases import LeaseLost, check_fence
from webapp.studio.models import Session, SessionState, Turn
from webapp.studio.states import move, withdraw_question
from webapp.studio.verdict_watch import VerdictWatch
from workers.protocol.codec import Json, to_json
from workers.protocol.events import EventKind
from workers.protocol.problem import Stage

PAUSE_POLL_SECONDS = 0.5


class RemoteEvaluator:
    """Asks the judge through the job table."""

    def __init__(self, session: Session, watch: VerdictWatch) -> None:
        self.session_id = session.pk
        self.fence = session.fence
        self.problem = session.problem
        self.watch = watch

    async def inspect(self) -> Judged:
        """The look that admitted the problem; a new one only if that is gone."""
        known = await in_thread(inspect_evaluation, self.problem)
        return _judged(known) if known else await self._ask(None, (Stage.INSPECT,))

    async def evaluate(self, files: Mapping[str, bytes], stages: tuple[Stage, ...]) -> Judged:
        """Ask and wait. A bad candidate is a verdict; errors of ours are raised."""
        return await self._ask(dict(files), stages)

    async def _ask(self, files: Mapping[str, bytes] | None, stages: tuple[Stage, ...]) -> Judged:
        evaluation = await in_thread(self._request, files, stages)
        return _judged(await self.watch.wait(evaluation.pk))

    def _request(self, files: Mapping[str, bytes] | None, stages: tuple[Stage, ...]) -> Evaluation:
        """Ask anew, unless a run of this session that is gone asked the same and nobody was told the answer."""
        with transaction.atomic():
            check_fence(self.session_id, self.fence)
            session = Session.objects.select_related("open_evaluation__snapshot").get(
                pk=self.session_id
            )
            left = session.open_evaluation
            if left is not None and self._is_same(left, files, stages):
                return left
            withdraw_question(self.session_id)
            evaluation = request_evaluation(self.problem, files, stages)
            rows = Session.objects.filter(pk=self.session_id)
            rows.update(open_evaluation=evaluation)
        return evaluation

    def _is_same(
        self, asked: Evaluation, files: Mapping[str, bytes] | None, stages: tuple[Stage, ...]
    ) -> bool:
        snapshot = None if files is None else keep_snapshot(self.problem.team, files)
        same = asked.problem_id == self.problem.pk and asked.snapshot == snapshot
        return same and asked.request.stages == stages and asked.state != EvaluationState.LOST


class SiteListener:
    """Writes events and turns down, in order."""

    def __init__(self, session_id: UUID, fence: int) -> None:
        self.session_id = session_id
        self.fence = fence

    async def emit(self, kind: EventKind, body: dict[str, Json]) -> None:
        """Append an event of the session's stream."""
        await in_thread(self._emit, kind, body)

    async def delta(self, turn: int, text: str) -> None:
        """Show text that is being written; kept nowhere."""
        await send_delta(self.session_id, turn, text)

    async def turn_finished(self, turn: TurnRecord) -> None:
        """Keep all that is needed to go on behind this turn."""
        await in_thread(self._turn_finished, turn)

    def _emit(self, kind: EventKind, body: dict[str, Json]) -> None:
        with transaction.atomic():
            check_fence(self.session_id, self.fence)
            if kind is EventKind.BEST:
                self._note_best(body)
            if kind is EventKind.EVALUATION:
                self._note_told(body)
            append(self.session_id, kind, body)

    def _turn_finished(self, turn: TurnRecord) -> None:
        lines = b"\n".join(to_json(entry) for entry in turn.entries)
        transcript = artifact_store().put(lines)
        with transaction.atomic():
            check_fence(self.session_id, self.fence)
            session = Session.objects.select_related("team").get(pk=self.session_id)
            snapshot = keep_snapshot(session.team, turn.files) if turn.files else None
            Turn.objects.create(
                session=session,
                number=turn.turn,
                text=turn.text,
                snapshot=snapshot,
                transcript_digest=transcript,
            )
            rows = Session.objects.filter(pk=self.session_id)
            rows.update(turn_count=F("turn_count") + 1, adoptions=0)
            append(self.session_id, EventKind.TURN_FINISHED, finished_body(turn))

    def _note_told(self, body: dict[str, Json]) -> None:
        """Forget the question with the event that tells its answer, so that each is told once."""
        asked = Session.objects.values_list("open_evaluation", flat=True).get(pk=self.session_id)
        if str(asked) == body["evaluation"]:
            Session.objects.filter(pk=self.session_id).update(open_evaluation=None)

    def _note_best(self, body: dict[str, Json]) -> None:
        """Point the session to its best evaluation, so that every page shows it at once."""
        session = Session.objects.get(pk=self.session_id)
        snapshot = Snapshot.objects.get(team_id=session.team_id, digest=str(body["snapshot"]))
        Session.objects.filter(pk=self.session_id).update(
            best_turn=body["turn"],
            best_snapshot=snapshot,
            best_evaluation=UUID(str(body["evaluation"])),
        )


class SiteControl:
    """Answers at tool boundaries whether the session may go on."""

    def __init__(self, session_id: UUID, fence: int) -> None:
        self.session_id = session_id
        self.fence = fence

    async def boundary(self) -> None:
        """Return to go on, wait while paused, raise `Cancelled` to stop or `LeaseLost` when replaced."""
        while await in_thread(self._look) is not SessionState.RUNNING:
            await asyncio.sleep(PAUSE_POLL_SECONDS)

    def _look(self) -> SessionState:
        row = Session.objects.filter(pk=self.session_id, fence=self.fence)
        found = row.values_list("state", "reason").first()
        if found is None:
            raise LeaseLost(f"session {self.session_id} has gone to another host")
        state, reason = SessionState(found[0]), found[1]
        if state is SessionState.STOPPING:
            raise Cancelled(reason)
        if state is SessionState.PAUSING:
            move(self.session_id, (state,), SessionState.PAUSED, reason, held_fence=self.fence)
        elif state not in (SessionState.RUNNING, SessionState.PAUSED):
            raise LeaseLost(f"session {self.session_id} is {state} already")
        return state


def _judged(evaluation: Evaluation) -> Judged:
    verdict = evaluation.verdict
    assert verdict is not None
    library = verdict.artifacts.get("library")
    bring = partial(artifact_store().get, library) if library else None
    return Judged(verdict, str(evaluation.pk), bring)


def best_of(session: Session) -> Best | None:
    """The best so far as the loop wants it."""
    evaluation, snapshot = session.best_evaluation, session.best_snapshot
    verdict = evaluation.verdict if evaluation else None
    if evaluation is None or snapshot is None or verdict is None or verdict.timing is None:
        return None
    return Best(
        turn=session.best_turn or 0,
        snapshot=snapshot.digest,
        evaluation=str(evaluation.pk),
        speedup=verdict.timing.speedup_eager,
    )
