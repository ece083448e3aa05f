"""What was compiled before, filed under a key that is computed before the compile. Failures too.

Only the builder's own process writes here; a sandbox never sees it. The folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workers.artifacts import ArtifactMissing, ArtifactStore, FolderStore
from workers.evaluation.build_tools import Failure, ToolOutcome, ToolRun
from workers.protocol.codec import ProtocolError, from_json, to_json
from workers.protocol.files import digest_of
from workers.protocol.requests import BuildResult, BuildStatus

_FORMAT = "builder-1"
"""Change it whenever the same inputs would be built differently."""
_LASTING = (Failure.NONE, Failure.REFUSED, Failure.CPU, Failure.SIZE)
"""Outcomes that the same inputs give again. A full machine or a slow minute is none of them."""


@dataclass(frozen=True)
class _Record:
    """One cached run of a tool."""

    output: str
    log: str
    failure: str
    seconds: float


def tool_key(run: ToolRun, toolchain: str) -> str:
    """Key of one run: everything that decides its outcome."""
    files = {name: digest_of(content) for name, content in run.files.items()}
    facts = {"argv": list(run.argv), "toolchain": toolchain, "limits": repr(run.limits)}
    return _key("tool", {"files": files, **facts})


def build_key(files: Mapping[str, bytes], facts: Mapping[str, str]) -> str:
    """Key of a whole build."""
    return _key(
        "build", {"files": {n: digest_of(c) for n, c in files.items()}, "facts": dict(facts)}
    )


def _key(kind: str, value: object) -> str:
    text = json.dumps([_FORMAT, value], sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()}"


class BuildCache:
    """Two kinds of records in one folder store."""

    def __init__(self, folder: Path) -> None:
        self._store = FolderStore(folder)

    def tool(self, key: str) -> ToolOutcome | None:
        """What a run gave last time."""
        try:
            digest = self._store.get_ref(key)
            if digest is None:
                return None
            record = from_json(_Record, self._store.get(digest))
            output = self._store.get(record.output)
            log = self._store.get(record.log).decode(errors="replace")
            return ToolOutcome(output, log, Failure(record.failure), record.seconds)
        except (ArtifactMissing, ProtocolError, ValueError):
            return None

    def keep_tool(self, key: str, outcome: ToolOutcome) -> None:
        """File an outcome, unless another day might give another one."""
        if outcome.failure not in _LASTING:
            return
        record = _Record(
            output=self._store.put(outcome.output),
            log=self._store.put(outcome.log.encode()),
            failure=outcome.failure.value,
            seconds=outcome.seconds,
        )
        self._store.put_ref(key, self._store.put(to_json(record)))

    def build(self, key: str, artifacts: ArtifactStore) -> BuildResult | None:
        """A whole result, if all that it names is still in the artifact store."""
        try:
            digest = self._store.get_ref(key)
            if digest is None:
                return None
            result = from_json(BuildResult, self._store.get(digest))
        except (ArtifactMissing, ProtocolError):
            return None
        named = (result.library, result.stub_library, result.log)
        if not all(artifacts.has(item) for item in named if item):
            return None
        return replace(
            result,
            cached_objects=result.cached_objects + result.compiled_objects,
            compiled_objects=0,
        )

    def keep_build(self, key: str, result: BuildResult, *, lasting: bool) -> None:
        """File a result that the same files would give again."""
        if lasting and result.status is not BuildStatus.INFRASTRUCTURE:
            self._store.put_ref(key, self._store.put(to_json(result)))
