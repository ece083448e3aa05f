"""What the demo downloads is looked at before it is unpacked."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from launch.console import LaunchError
from launch.take_home import package_of, unpack


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, b"")
    return buffer.getvalue()


def test_one_folder_is_unpacked_and_its_package_found(tmp_path: Path):
    project = unpack(archive("p/setup.py", "p/src/gelu_cpu/__init__.py"), tmp_path)
    assert project == tmp_path / "p"
    assert package_of(project) == "gelu_cpu"


@pytest.mark.parametrize("names", [("a/x", "b/y"), ("p/../../x",), ("/etc/x",), ()])
def test_anything_else_is_refused(tmp_path: Path, names: tuple[str, ...]):
    with pytest.raises(LaunchError, match="does not hold one folder"):
        unpack(archive(*names), tmp_path)


def test_a_project_without_a_package_is_named(tmp_path: Path):
    with pytest.raises(LaunchError, match="does not hold one package"):
        package_of(unpack(archive("p/setup.py"), tmp_path))
