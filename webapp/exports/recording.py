"""A finished session as one file, and back: how a new site gets an example that really ran.

The file is a zip of `recording.json` and the artifacts that it names. Reading it back makes the same session with
the same ids, events, turns and verdicts. The problem is uploaded like any other, so this site's own judge looks
at it; what was recorded elsewhere keeps naming the device it was measured on. Live links between the two sites
there are none.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from webapp.common.artifacts import artifact_store
from webapp.common.errors import UserError
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Baseline, Evaluation
from webapp.evaluations.services import keep_snapshot
from webapp.evaluations.settling import settle
from webapp.events.models import LogEntry, Stream
from webapp.exports.archive import pack
from webapp.problems.models import Problem
from webapp.studio.models import Session, SessionState, Turn
from webapp.teams.models import Team, User
from workers.artifacts import get_files
from workers.protocol.codec import from_data, from_json
from workers.protocol.events import EventKind
from workers.protocol.files import FileManifest, digest_of
from workers.protocol.verdict import Evaluation as Verdict

VERSION = 1
_FOLDER = "recording"


@dataclass(frozen=True)
class _Archive:
    """A recording that was read: its facts, and its artifacts by digest."""

    facts: dict[str, Any]
    objects: dict[str, bytes]


def record(session: Session) -> bytes:
    """Write a finished session down. Raises `UserError` for one that has not finished."""
    if session.state != SessionState.FINISHED or session.best_evaluation is None:
        raise UserError("Only a finished session with a best verdict can be recorded.")
    evaluations = _evaluations_of(session)
    turns = list(session.turns.select_related("snapshot"))
    entries = LogEntry.objects.filter(stream_id=session.pk).order_by("seq")
    assert session.best_snapshot is not None
    facts = {
        "version": VERSION,
        "problem": {"title": session.problem.title, "digest": session.problem.digest},
        "session": {
            "id": str(session.pk),
            "author": session.author,
            "reason": session.reason,
            "created_at": _moment(session.created_at),
            "started_at": _moment(session.started_at),
            "finished_at": _moment(session.finished_at),
            "best_turn": session.best_turn,
            "best_snapshot": session.best_snapshot.digest,
            "best_evaluation": str(session.best_evaluation_id),
        },
        "turns": [
            {
                "number": turn.number,
                "text": turn.text,
                "snapshot": turn.snapshot.digest if turn.snapshot else "",
                "transcript": turn.transcript_digest,
                "created_at": _moment(turn.created_at),
            }
            for turn in turns
        ],
        "evaluations": [_evaluation_facts(evaluation) for evaluation in evaluations],
        "events": [
            {"seq": e.seq, "at": _moment(e.at), "kind": e.kind, "body": e.body} for e in entries
        ],
    }
    objects = _objects(facts)
    files = {f"objects/{digest}": content for digest, content in objects.items()}
    files["recording.json"] = json.dumps(facts, indent=1, sort_keys=True).encode()
    return pack(files, _FOLDER)


def restore(content: bytes, team: Team, user: User) -> Session:
    """Make the recorded session in a team; the one that is there already stays as it is."""
    archive = _read(content)
    facts = archive.facts["session"]
    present = Session.objects.filter(pk=facts["id"]).first()
    if present is not None:
        return present
    store = artifact_store()
    for item in archive.objects.values():
        store.put(item)
    problem_files = get_files(store, archive.facts["problem"]["digest"])
    with transaction.atomic():
        title = archive.facts["problem"]["title"]
        problem = upload_problem(team, user, problem_files, title)
        session = _restore_session(archive.facts, problem, user)
        for item in archive.facts["evaluations"]:
            _restore_evaluation(item, problem)
        _restore_turns(archive.facts["turns"], session)
        _restore_events(archive.facts["events"], session)
        session.best_snapshot = keep_snapshot(team, get_files(store, facts["best_snapshot"]))
        session.best_evaluation_id = UUID(facts["best_evaluation"])
        session.save(update_fields=["best_snapshot", "best_evaluation"])
    return session


def _restore_session(facts: dict[str, Any], problem: Problem, user: User) -> Session:
    kept = facts["session"]
    session = Session.objects.create(
        pk=kept["id"],
        team=problem.team,
        problem=problem,
        creator=user,
        author=kept["author"],
        state=SessionState.FINISHED,
        reason=kept["reason"],
        started_at=_time(kept["started_at"]),
        finished_at=_time(kept["finished_at"]),
        turn_count=len(facts["turns"]),
        best_turn=kept["best_turn"],
    )
    Session.objects.filter(pk=session.pk).update(created_at=_time(kept["created_at"]))
    return session


def _restore_evaluation(kept: dict[str, Any], problem: Problem) -> None:
    snapshot = None
    if kept["snapshot"]:
        snapshot = keep_snapshot(problem.team, get_files(artifact_store(), kept["snapshot"]))
    evaluation, created = Evaluation.objects.get_or_create(
        pk=kept["id"],
        defaults={
            "team": problem.team,
            "problem": problem,
            "snapshot": snapshot,
            "stages": kept["stages"],
            "tier": kept["tier"],
            "precision": kept["precision"],
        },
    )
    if created:
        settle(evaluation.pk, from_data(Verdict, kept["verdict"]))
        Evaluation.objects.filter(pk=evaluation.pk).update(
            created_at=_time(kept["created_at"]), finished_at=_time(kept["finished_at"])
        )
        # The recorded log tells of this ratio already.
        Baseline.objects.filter(evaluation=evaluation).update(
            announced_at=_time(kept["finished_at"])
        )


def _restore_turns(turns: list[dict[str, Any]], session: Session) -> None:
    for kept in turns:
        files = get_files(artifact_store(), kept["snapshot"]) if kept["snapshot"] else None
        turn = Turn.objects.create(
            session=session,
            number=kept["number"],
            text=kept["text"],
            snapshot=keep_snapshot(session.team, files) if files is not None else None,
            transcript_digest=kept["transcript"],
        )
        Turn.objects.filter(pk=turn.pk).update(created_at=_time(kept["created_at"]))


def _restore_events(events: list[dict[str, Any]], session: Session) -> None:
    """The log as it was; written directly, because these numbers and times are not new."""
    if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
        raise UserError("The recording's log has gaps.")
    Stream.objects.create(pk=session.pk, team=session.team, last_seq=len(events))
    LogEntry.objects.bulk_create(
        LogEntry(
            stream_id=session.pk,
            seq=event["seq"],
            at=datetime.fromisoformat(event["at"]),
            kind=EventKind(event["kind"]).value,
            body=event["body"],
        )
        for event in events
    )


def _evaluations_of(session: Session) -> list[Evaluation]:
    """The verdicts that the log names, and the one on torch.compile."""
    named = {
        entry.body["evaluation"]
        for entry in LogEntry.objects.filter(stream_id=session.pk)
        if entry.body.get("evaluation")
    }
    baseline = Baseline.objects.filter(problem=session.problem).values_list(
        "evaluation_id", flat=True
    )
    found = Evaluation.objects.filter(
        pk__in={*map(UUID, named), *baseline}, verdict_data__isnull=False
    )
    return list(found.select_related("snapshot").order_by("created_at"))


def _evaluation_facts(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "id": str(evaluation.pk),
        "snapshot": evaluation.snapshot.digest if evaluation.snapshot else "",
        "stages": evaluation.stages,
        "tier": evaluation.tier,
        "precision": evaluation.precision,
        "created_at": _moment(evaluation.created_at),
        "finished_at": _moment(evaluation.finished_at),
        "verdict": evaluation.verdict_data,
    }


def _objects(facts: dict[str, Any]) -> dict[str, bytes]:
    """Every artifact that the facts name: file sets with their files, and transcripts."""
    store = artifact_store()
    sets = {facts["problem"]["digest"], facts["session"]["best_snapshot"]}
    sets |= {
        item["snapshot"] for item in (*facts["turns"], *facts["evaluations"]) if item["snapshot"]
    }
    objects: dict[str, bytes] = {}
    for digest in sets:
        objects[digest] = store.get(digest)
        for entry in from_json(FileManifest, objects[digest]).files:
            objects[entry.sha256] = store.get(entry.sha256)
    for turn in facts["turns"]:
        objects[turn["transcript"]] = store.get(turn["transcript"])
    return objects


def _read(content: bytes) -> _Archive:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            facts = json.loads(file.read(f"{_FOLDER}/recording.json"))
            objects = {
                name.rpartition("/")[2]: file.read(name)
                for name in file.namelist()
                if name.startswith(f"{_FOLDER}/objects/")
            }
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise UserError("This file is no recording of a session.") from error
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise UserError(f"This recording has another version than {VERSION}.")
    if any(digest_of(item) != digest for digest, item in objects.items()):
        raise UserError("A file of this recording does not match its digest.")
    return _Archive(facts, objects)


def _moment(when: datetime | None) -> str:
    return "" if when is None else when.isoformat()


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
