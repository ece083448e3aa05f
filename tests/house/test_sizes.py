"""Small rooms: a module stays under 400 lines, a function under 60; at 500 the house says no."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MODULE_LINES = 500
MODULE_LINES_WANTED = 400
SCRIPT_LINES = 300
FUNCTION_LINES = 60


def our_files(*suffixes: str) -> list[Path]:
    """Files of the repository: tracked, or new and not ignored; no migrations, nothing vendored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout
    paths = [REPOSITORY / name for name in listing.decode().split("\0") if name]
    return [
        path
        for path in paths
        if path.suffix in suffixes
        and path.is_file()
        and not {"migrations", "vendor"} & set(path.relative_to(REPOSITORY).parts)
    ]


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def named(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_no_module_grows_past_its_room():
    large = {named(path): lines_of(path) for path in our_files(".py")}
    assert {name: count for name, count in large.items() if count >= MODULE_LINES} == {}


def test_no_module_outside_tests_is_longer_than_wanted():
    large = {named(path): lines_of(path) for path in our_files(".py")}
    over = {
        name: count
        for name, count in large.items()
        if count >= MODULE_LINES_WANTED and not name.startswith("tests/")
    }
    assert over == {}


def test_no_page_script_grows_past_its_room():
    large = {named(path): lines_of(path) for path in our_files(".js")}
    assert {name: count for name, count in large.items() if count >= SCRIPT_LINES} == {}


def test_no_function_is_longer_than_a_screen():
    long = {}
    for path in our_files(".py"):
        if named(path).startswith(("tests/", "examples/")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length >= FUNCTION_LINES:
                    long[f"{named(path)}:{node.name}"] = length
    assert long == {}
