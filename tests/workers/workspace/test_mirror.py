"""The author's files are carried over; whatever the folder holds, nothing outside it is read or written."""

from __future__ import annotations

import os

import pytest

from workers.protocol.files import MAX_FILE_BYTES
from workers.workspace.mirror import MAX_ENTRIES, Mirror, write_below

FILES = {"model_new.py": b"a = 1\n", "kernels/a.cpp": b"int a;\n"}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def mirror(folder):
    handle = os.open(folder, os.O_RDONLY)
    mirror = Mirror(handle, None)
    os.close(handle)
    assert mirror.put(FILES) == ()
    yield mirror
    mirror.close()


def test_new_changed_and_removed_files_are_taken_over_and_scratch_is_not(folder, mirror):
    (folder / "kernels" / "b.h").write_bytes(b"int b;\n")
    (folder / "model_new.py").write_bytes(b"a = 2\n")
    (folder / "kernels" / "a.cpp").unlink()
    (folder / "kernels" / "a.o").write_bytes(b"object")
    (folder / "tune.py").write_bytes(b"scratch")
    taken = mirror.take(FILES)
    assert taken.files == {"model_new.py": b"a = 2\n", "kernels/b.h": b"int b;\n"}
    assert taken.changed == ("kernels/a.cpp", "kernels/b.h", "model_new.py")
    assert taken.refused == ()
    assert mirror.take(taken.files).changed == ()


def test_what_a_tool_wrote_meanwhile_is_not_undone_by_an_old_file(folder, mirror):
    newer = {**FILES, "kernels/a.cpp": b"int newer;\n"}
    taken = mirror.take(newer)
    assert taken.files == newer
    assert mirror.put(taken.files) == ()
    assert (folder / "kernels" / "a.cpp").read_bytes() == b"int newer;\n"
    mirror.put({"model_new.py": b"alone"})
    assert not (folder / "kernels" / "a.cpp").exists()


def test_a_link_is_never_followed_and_the_last_good_version_stays(folder, mirror, tmp_path):
    secret = tmp_path / "secret.cpp"
    secret.write_text("secret")
    for name in ("model_new.py", "kernels/a.cpp", "kernels/new.cpp"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert len(taken.refused) == 3
    assert all("is a link" in sentence for sentence in taken.refused)
    # A tool that writes the file again replaces the link and not what it points to.
    mirror.put({**FILES, "model_new.py": b"a = 3\n"})
    assert (folder / "model_new.py").read_bytes() == b"a = 3\n"
    assert secret.read_text() == "secret"


def test_a_folder_that_became_a_link_is_refused_and_nothing_is_lost(folder, mirror, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.cpp").write_text("outside")
    (folder / "kernels").rename(folder / "old")
    (folder / "kernels").symlink_to(outside)
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert "kernels is no folder" in taken.refused[0]
    problems = mirror.put({**FILES, "kernels/a.cpp": b"int changed;\n"})
    assert "kernels/a.cpp could not be put" in problems[0]
    assert (outside / "a.cpp").read_text() == "outside"
    assert [path.name for path in outside.iterdir()] == ["a.cpp"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: os.mkfifo(path), "no plain file"),
        (lambda path: path.mkdir(), ""),
        (lambda path: path.write_bytes(b"x" * (MAX_FILE_BYTES + 1)), "bytes, so it was left out"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40), "left out"),
    ],
    ids=["pipe", "folder", "large", "sparse terabyte"],
)
def test_odd_and_large_files_are_refused_with_a_sentence(folder, mirror, make, told):
    make(folder / "kernels" / "odd.cpp")
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert told in "; ".join(taken.refused)


def test_names_that_no_snapshot_may_have_are_refused(folder, mirror):
    (folder / "kernels" / "a b.cpp").write_text("")
    (folder / "kernels" / os.fsdecode(b"\xff\xfe.cpp")).write_text("")
    (folder / "kernels" / "x\ny").mkdir()
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert len(taken.refused) == 3
    "; ".join(taken.refused).encode()


def test_more_than_fits_is_refused_as_a_whole_until_it_fits_again(folder, mirror):
    for number in range(250):
        (folder / "kernels" / f"k{number}.cpp").write_text("int k;")
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert "more than 200 files" in taken.refused[0]
    for number in range(100, 250):
        (folder / "kernels" / f"k{number}.cpp").unlink()
    assert len(mirror.take(FILES).files) == 102


def test_a_folder_full_of_names_costs_a_bounded_look(folder, mirror):
    for number in range(MAX_ENTRIES + 1):
        (folder / "kernels" / f"{number}.o").touch()
    taken = mirror.take(FILES)
    assert taken.files == FILES
    assert "names in kernels/" in taken.refused[0]


def test_after_closing_nothing_changes(folder, mirror):
    mirror.close()
    (folder / "model_new.py").write_bytes(b"late")
    assert mirror.take(FILES).files == FILES
    assert mirror.put({"model_new.py": b"later"}) == ()
    assert (folder / "model_new.py").read_bytes() == b"late"


def test_writing_below_a_folder_replaces_what_lies_there(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        write_below(handle, "outputs/deep/1.txt", b"one", None)
        write_below(handle, "outputs/deep/1.txt", b"two", None)
    finally:
        os.close(handle)
    assert (folder / "outputs" / "deep" / "1.txt").read_bytes() == b"two"
    assert len(list((folder / "outputs" / "deep").iterdir())) == 1
