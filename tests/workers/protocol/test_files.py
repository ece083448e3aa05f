"""Sets of files: their digest names them, and no path leads out of them."""

from __future__ import annotations

import pytest

from workers.protocol.codec import ProtocolError
from workers.protocol.files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    FileEntry,
    FileManifest,
    check_path,
    digest_of,
    manifest_of,
)


@pytest.mark.parametrize("path", ["model.py", "kernels/ops.json", "kernels/a-b_c.1.cpp", "_x/y"])
def test_ordinary_paths_pass(path: str):
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../model.py",
        "kernels/../../x",
        "kernels//a.cpp",
        "kernels/",
        ".hidden",
        "kernels/.git",
        "a b",
        "a\nb",
        "a\x00b",
        "ä.cpp",
        "C:\\x",
        "-rf",
        "x" * 201,
    ],
)
def test_it_refuses_paths_that_could_leave_the_folder(path: str):
    with pytest.raises(ProtocolError, match="is not allowed"):
        check_path(path)


def test_the_digest_depends_on_names_and_contents_but_not_on_order():
    first = manifest_of({"a": b"1", "b": b"2"})
    assert first.digest == manifest_of({"b": b"2", "a": b"1"}).digest
    assert first.digest != manifest_of({"a": b"2", "b": b"1"}).digest
    assert first.digest != manifest_of({"a": b"1", "c": b"2"}).digest


def test_it_refuses_a_file_that_is_too_large_and_names_it():
    with pytest.raises(ProtocolError, match=r"big\.txt has 1,048,577 bytes"):
        manifest_of({"big.txt": b"x" * (MAX_FILE_BYTES + 1)})


def test_it_refuses_files_that_are_too_large_together():
    with pytest.raises(ProtocolError, match="8,388,608 are allowed"):
        manifest_of({f"f{i}": b"x" * MAX_FILE_BYTES for i in range(9)})


def test_it_refuses_too_many_files():
    with pytest.raises(ProtocolError, match=f"more than {MAX_FILES} files"):
        manifest_of({f"f{i}": b"" for i in range(MAX_FILES + 1)})


def test_it_refuses_a_manifest_that_is_unsorted_or_names_a_file_twice():
    a, b = FileEntry("a", digest_of(b"1")), FileEntry("b", digest_of(b"2"))
    for files in [(b, a), (a, a)]:
        with pytest.raises(ProtocolError, match="sorted and unique"):
            FileManifest(files)


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64])
def test_it_refuses_what_is_no_sha256(digest: str):
    with pytest.raises(ProtocolError, match="not a sha256"):
        FileEntry("a", digest)
