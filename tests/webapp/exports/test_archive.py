"""Archives: equal contents give equal bytes."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

from webapp.exports.archive import SUMS, pack, with_sums

FILES = {"b/x.cpp": b"// x\n" * 100, "a.py": b"pass\n"}


def test_the_order_of_files_does_not_matter():
    assert pack(FILES, "p") == pack(dict(reversed(FILES.items())), "p")


def test_everything_lies_in_one_folder_and_comes_back_as_it_was():
    with zipfile.ZipFile(io.BytesIO(pack(FILES, "p"))) as archive:
        assert archive.namelist() == ["p/a.py", "p/b/x.cpp"]
        assert archive.read("p/b/x.cpp") == FILES["b/x.cpp"]
        assert {entry.date_time for entry in archive.infolist()} == {(2000, 1, 1, 0, 0, 0)}


def test_the_list_of_digests_is_what_sha256sum_checks(tmp_path: Path):
    with zipfile.ZipFile(io.BytesIO(pack(with_sums(FILES), "p"))) as archive:
        archive.extractall(tmp_path)
    check = ["sha256sum", "--check", "--strict", SUMS]
    assert subprocess.run(check, cwd=tmp_path / "p", capture_output=True).returncode == 0
    (tmp_path / "p" / "a.py").write_bytes(b"changed\n")
    assert subprocess.run(check, cwd=tmp_path / "p", capture_output=True).returncode == 1
