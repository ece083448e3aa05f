"""What the host lacks is said in one sentence that says how to get it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from launch import prerequisites
from launch.console import LaunchError
from launch.prerequisites import check_compiler, find_python, probe


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def a_python(path: Path, version: str, *, venv: bool = True, headers: bool = True) -> str:
    answer = (
        f'{{"executable": "{path}", "version": [{version.replace(".", ", ")}], '
        f'"venv": {str(venv).lower()}, "headers": {str(headers).lower()}}}'
    )
    return script(path, f"echo '{answer}'")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A host that has nothing but one Python."""

    def install(version: str, **lacks: bool) -> None:
        monkeypatch.setattr(
            sys, "executable", a_python(tmp_path / "bin" / "python3", version, **lacks)
        )
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    return install


def test_it_takes_the_python_it_was_started_with():
    assert find_python().suits


@pytest.mark.parametrize("version", ["3.11.0", "3.12.7", "3.13.1"])
def test_these_versions_suit(only, version: str):
    only(version)
    assert find_python().name == f"Python {version}"


@pytest.mark.parametrize("version", ["2.7.18", "3.9.2", "3.10.12", "3.14.0"])
def test_other_versions_are_refused_with_what_to_install(only, version: str):
    only(version)
    with pytest.raises(LaunchError, match=rf"needs Python 3.11, 3.12 or 3.13 \(Python {version}"):
        find_python()


def test_a_missing_venv_module_is_named(only):
    only("3.11.2", venv=False)
    with pytest.raises(LaunchError, match=r"apt-get install python3\.11-venv"):
        find_python()


def test_missing_headers_are_named(only):
    only("3.12.2", headers=False)
    with pytest.raises(LaunchError, match=r"apt-get install python3\.12-dev"):
        find_python()


def test_a_better_python_beside_the_first_one_is_taken(only, tmp_path: Path):
    only("3.9.2")
    better = a_python(tmp_path / "bin" / "python3.12", "3.12.1")
    assert find_python().executable == better


def test_a_shim_that_only_complains_counts_as_missing(tmp_path: Path):
    assert probe(script(tmp_path / "python3.13", "echo 'not installed' >&2; exit 127")) is None


def test_a_missing_compiler_is_named(tmp_path: Path):
    with pytest.raises(LaunchError, match=r"needs a C\+\+ compiler\..*apt-get install g\+\+"):
        check_compiler({"PATH": str(tmp_path)})


def test_a_compiler_named_by_cxx_must_exist(tmp_path: Path):
    with pytest.raises(LaunchError, match=r"CXX names the C\+\+ compiler 'none-such'"):
        check_compiler({"PATH": os.environ["PATH"], "CXX": "none-such"})
    own = script(tmp_path / "my-c++", "exit 0")
    assert check_compiler({"PATH": str(tmp_path), "CXX": "my-c++"}) == own


def test_a_torch_that_is_too_old_does_not_count(tmp_path: Path):
    def with_torch(version: str) -> str:
        answer = f'{{"version": "{version}", "folder": "/somewhere"}}'
        return script(tmp_path / version, f"echo '{answer}'")

    assert prerequisites.probe_torch(with_torch("2.9.1")) is None
    assert prerequisites.probe_torch(with_torch("unknown")) is None
    found = prerequisites.probe_torch(with_torch("2.10.0+cu130"))
    assert found is not None
    assert found.version == "2.10.0+cu130"
