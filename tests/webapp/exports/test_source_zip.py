"""The source zip of a session: from rows and artifacts to bytes."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.webapp.exports.test_assembly import KERNEL
from webapp.common.artifacts import artifact_store
from webapp.common.errors import UserError
from webapp.exports.services import source_zip
from webapp.studio.models import Session, SessionState
from workers.protocol.files import digest_of


def test_it_holds_the_verified_kernel_and_where_it_came_from(finished: Session):
    filename, content = source_zip(finished)
    sha7 = finished.best_snapshot.digest[:7]
    assert filename == f"bias-relu-cpu-1.0+g{sha7}-src.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        folder = f"bias-relu-cpu-1.0+g{sha7}"
        assert archive.read(f"{folder}/csrc/kernels/bias_relu.cpp") == KERNEL
        facts = json.loads(archive.read(f"{folder}/evidence/session.json"))
    assert facts["session"] == str(finished.pk)
    assert facts["snapshot"] == finished.best_snapshot.digest
    assert facts["turn"] == 1


def test_the_same_session_gives_the_same_bytes(finished: Session):
    assert source_zip(finished) == source_zip(Session.objects.get(pk=finished.pk))


def test_a_session_without_a_verified_kernel_says_so(people, problem):
    session = Session.objects.create(
        team=people.team, problem=problem, author="codegen", state=SessionState.RUNNING
    )
    with pytest.raises(UserError, match="no verified kernel yet"):
        source_zip(session)


def test_a_lost_artifact_is_a_sentence_and_no_traceback(finished: Session):
    digest = digest_of(KERNEL)
    (artifact_store().root / "objects" / digest[:2] / digest[2:]).unlink()
    with pytest.raises(UserError, match="is missing in the artifact store"):
        source_zip(finished)
