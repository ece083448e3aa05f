"""The artifact store: what comes out is what went in, or nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from workers.artifacts import ArtifactMissing, FolderStore, get_files, put_files
from workers.protocol.codec import ProtocolError
from workers.protocol.files import digest_of


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "artifacts")


def test_it_gives_back_what_was_put(store: FolderStore):
    digest = store.put(b"kernel")
    assert digest == digest_of(b"kernel")
    assert store.get(digest) == b"kernel"
    assert store.has(digest)


def test_it_makes_its_folder_only_when_something_is_put(store: FolderStore):
    assert not store.has("0" * 64)
    assert not store.root.exists()


def test_a_missing_artifact_is_named(store: FolderStore):
    with pytest.raises(ArtifactMissing, match="0" * 64):
        store.get("0" * 64)


def test_it_refuses_bytes_that_no_longer_match_their_digest(store: FolderStore):
    digest = store.put(b"kernel")
    (store.root / "objects" / digest[:2] / digest[2:]).write_bytes(b"changed")
    with pytest.raises(ArtifactMissing):
        store.get(digest)


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "0" * 63 + "/", "A" * 64])
def test_it_refuses_digests_that_are_none(store: FolderStore, digest: str):
    with pytest.raises(ArtifactMissing):
        store.get(digest)


@pytest.mark.parametrize("key", ["", "..", "../x", "a/b", "A", "a" * 130])
def test_it_refuses_keys_that_could_leave_the_folder(store: FolderStore, key: str):
    with pytest.raises(ProtocolError, match="is not allowed"):
        store.put_ref(key, "0" * 64)


def test_the_first_answer_under_a_key_stays(store: FolderStore):
    first, second = store.put(b"first"), store.put(b"second")
    store.put_ref("job-1-1", first)
    store.put_ref("job-1-1", second)
    assert store.get_ref("job-1-1") == first
    assert store.get_ref("job-1-2") is None


def test_a_moved_reference_points_to_the_newest(store: FolderStore):
    first, second = store.put(b"first"), store.put(b"second")
    store.move_ref("worker-1", first)
    store.move_ref("worker-1", second)
    store.put_ref("job-1", first)
    assert store.get_ref("worker-1") == second
    assert store.refs("worker-") == ["worker-1"]
    assert FolderStore(store.root / "nowhere").refs("worker-") == []


def test_a_set_of_files_comes_back_whole(store: FolderStore):
    files = {"model.py": b"import torch\n", "kernels/a.cpp": b"// a\n"}
    assert get_files(store, put_files(store, files)) == files


def test_a_set_with_a_lost_file_is_missing(store: FolderStore):
    digest = put_files(store, {"model.py": b"import torch\n"})
    lost = digest_of(b"import torch\n")
    (store.root / "objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(ArtifactMissing):
        get_files(store, digest)


def test_many_writers_of_one_content_leave_one_whole_file(store: FolderStore):
    content = b"x" * 200_000
    writers = [threading.Thread(target=store.put, args=(content,)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=30)
    assert store.get(digest_of(content)) == content
    assert [path.name for path in store.root.rglob(".new-*")] == []
