"""A session written down and read back is the same session."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from webapp.common.errors import UserError
from webapp.evaluations.models import Evaluation, Snapshot
from webapp.events.models import Stream
from webapp.events.queries import after
from webapp.exports.recording import record, restore
from webapp.exports.services import source_zip
from webapp.problems.models import Problem
from webapp.studio.models import Session, SessionState


def forget_everything(settings, tmp_path: Path) -> None:
    """A new site: no rows of the session, another artifact store."""
    Session.objects.all().delete()
    Evaluation.objects.all().delete()
    Snapshot.objects.all().delete()
    Problem.objects.all().delete()
    Stream.objects.all().delete()
    settings.ARTIFACTS = tmp_path / "another"


def test_log_verdict_files_and_best_come_back(finished: Session, people, settings, tmp_path: Path):
    log, zip_before = after(finished.pk, 0), source_zip(finished)
    best = Evaluation.objects.get(pk=finished.best_evaluation_id)
    content = record(finished)
    forget_everything(settings, tmp_path)

    session = Session.objects.get(pk=restore(content, people.team, people.owner).pk)

    assert session.pk == finished.pk
    assert session.state == SessionState.FINISHED
    assert session.finished_at == finished.finished_at
    assert session.created_at == finished.created_at
    assert after(session.pk, 0) == log
    assert session.best_evaluation is not None
    assert session.best_evaluation.verdict == best.verdict
    assert session.best_evaluation.speedup_median == best.speedup_median
    assert session.turns.get().snapshot == session.best_snapshot
    name, content_after = source_zip(session)
    assert name == zip_before[0]
    with zipfile.ZipFile(io.BytesIO(content_after)) as archive:
        kernel = next(entry for entry in archive.namelist() if entry.endswith("bias_relu.cpp"))
        with zipfile.ZipFile(io.BytesIO(zip_before[1])) as before:
            assert archive.read(kernel) == before.read(kernel)


def test_this_sites_own_judge_looks_at_the_problem(finished, people, settings, tmp_path, hints):
    content = record(finished)
    forget_everything(settings, tmp_path)
    hints("device.cpu")
    restore(content, people.team, people.owner)
    assert [message.request.stages[0] for message in hints("device.cpu")] == ["inspect"]
    assert Problem.objects.get().state == "checking"


def test_reading_it_twice_changes_nothing(finished: Session, people):
    content = record(finished)
    restore(content, people.team, people.owner)
    assert Session.objects.count() == 1
    assert len(after(finished.pk, 0)) == 3


def test_equal_sessions_give_equal_files(finished: Session):
    assert record(finished) == record(Session.objects.get(pk=finished.pk))


def test_only_a_finished_session_is_recorded(finished: Session):
    finished.state = SessionState.STOPPED
    with pytest.raises(UserError, match="Only a finished session"):
        record(finished)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip" * 100])
def test_what_is_no_recording_is_refused(people, content: bytes):
    with pytest.raises(UserError, match="no recording"):
        restore(content, people.team, people.owner)


def test_a_changed_file_is_noticed(finished: Session, people):
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(record(finished))) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content + b" " if "/objects/" in name else content)
    Session.objects.all().delete()
    with pytest.raises(UserError, match="does not match its digest"):
        restore(changed.getvalue(), people.team, people.owner)


def test_the_commands_write_and_read(finished: Session, people, settings, tmp_path: Path):
    call_command("record_session", str(finished.pk), str(tmp_path / "r.zip"))
    forget_everything(settings, tmp_path)
    call_command("import_session", str(tmp_path / "r.zip"), "--team", people.team.slug)
    assert Session.objects.get().pk == finished.pk
    with pytest.raises(CommandError, match="no team"):
        call_command("import_session", str(tmp_path / "r.zip"), "--team", "nobody")
