"""Exports of sessions."""

from __future__ import annotations

from webapp.common.artifacts import artifact_store
from webapp.common.errors import UserError
from webapp.evaluations.queries import speedup_compile
from webapp.exports.archive import pack, with_sums
from webapp.exports.assembly import Origin, project_files
from webapp.exports.rewriting import NotExportable
from webapp.studio.models import Session
from workers.artifacts import ArtifactMissing, get_files
from workers.protocol.codec import Json


def source_zip(session: Session) -> tuple[str, bytes]:
    """The source zip of a session's best verified snapshot: its file name and its bytes.

    Equal verdicts give equal bytes. Raises `UserError` where there is nothing to export, or where the
    snapshot cannot leave as it is.
    """
    evaluation, snapshot = session.best_evaluation, session.best_snapshot
    verdict = evaluation.verdict if evaluation is not None else None
    if evaluation is None or snapshot is None or verdict is None:
        raise UserError("This session has no verified kernel yet; there is nothing to download.")
    store = artifact_store()
    try:
        origin = Origin(
            title=session.problem.title,
            problem=get_files(store, session.problem.digest),
            snapshot=get_files(store, snapshot.digest),
            verdict=verdict,
            speedup_compile=speedup_compile(evaluation),
            session=_facts(session),
        )
        files = project_files(origin)
    except ArtifactMissing as error:
        raise UserError(
            f"A file of this session is missing in the artifact store ({str(error)[:20]}…)."
        ) from error
    except NotExportable as error:
        raise UserError(f"This session cannot be exported: {error}") from error
    return origin.names.filename, pack(with_sums(files), origin.names.folder)


def _facts(session: Session) -> dict[str, Json]:
    """Where the kernels came from. Nothing in it changes after the best turn."""
    assert session.best_snapshot is not None
    return {
        "session": str(session.pk),
        "author": session.author,
        "turn": session.best_turn,
        "problem": {
            "id": str(session.problem.pk),
            "title": session.problem.title,
            "digest": session.problem.digest,
        },
        "snapshot": session.best_snapshot.digest,
        "evaluation": str(session.best_evaluation_id),
    }
