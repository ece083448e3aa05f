"""The documents tell the truth: commands exist, links lead somewhere, no setting of a workplace leaks."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.test_sizes import named, our_files

REPOSITORY = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def make_targets() -> set[str]:
    makefile = (REPOSITORY / "Makefile").read_text()
    lines = [line for line in makefile.splitlines() if re.match(r"[a-z][a-z -]*:(?!=)", line)]
    return {target for line in lines for target in line.split(":")[0].split()}


def documents() -> list[Path]:
    return [path for path in our_files(".md") if path.is_file()]


@pytest.mark.parametrize("path", documents(), ids=named)
def test_every_make_command_in_a_document_exists(path: Path):
    named_commands = set(re.findall(r"`make ([a-z-]+)", path.read_text()))
    named_commands |= set(re.findall(r"^make ([a-z-]+)", path.read_text(), re.MULTILINE))
    assert named_commands - make_targets() == set()


@pytest.mark.parametrize("path", documents(), ids=named)
def test_every_link_inside_the_repository_leads_somewhere(path: Path):
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_tells_the_two_commands_and_shows_the_page():
    text = (REPOSITORY / "README.md").read_text()
    assert "make up" in text
    assert "make demo" in text
    assert "docs/images/live.png" in text


def test_every_make_target_starts():
    """`make -n` parses the Makefile and knows each target."""
    for target in make_targets():
        subprocess.run(["make", "-n", target], cwd=REPOSITORY, check=True, capture_output=True)


def test_there_is_a_licence_and_a_changelog():
    assert "Apache License" in (REPOSITORY / "LICENSE").read_text()
    assert "## " in (REPOSITORY / "CHANGELOG.md").read_text()
