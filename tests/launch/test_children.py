"""Children are kept alive, and nothing of them is left at the end."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.children import Household, Program
from launch.console import LaunchError

REPOSITORY = Path(__file__).resolve().parents[2]

# A keeper in a process of its own, since it adopts orphans and kills all of its descendants.
KEEPER = """
import sys, time
from pathlib import Path
from launch.children import Household, Program, adopt_orphans, descendants
from launch.console import LaunchError
folder = Path(sys.argv[1])
adopt_orphans()
pause = float(sys.argv[4])
household = Household(folder, folder / "logs", lambda text: print(text, flush=True), pause)
household.start(Program("child", ("bash", "-c", sys.argv[2]), {"PATH": "/usr/bin:/bin"}))
print("started", flush=True)
end = time.monotonic() + float(sys.argv[3])
try:
    while time.monotonic() < end:
        household.tend()
        time.sleep(0.05)
except LaunchError as error:
    print("gave up:", error)
print("left", household.stop(limit_s=1.0), descendants(), flush=True)
"""


def keeper(tmp_path: Path, script: str, seconds: float, pause_s: float = 1.0) -> list[str]:
    arguments = [str(tmp_path), script, str(seconds), str(pause_s)]
    return [sys.executable, "-c", textwrap.dedent(KEEPER), *arguments]


def keep(tmp_path: Path, script: str, seconds: float, pause_s: float = 1.0) -> str:
    result = subprocess.run(
        keeper(tmp_path, script, seconds, pause_s),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def running(marker: str) -> list[str]:
    """Command lines of living processes that hold the marker."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in text and sys.executable not in text:
            lines.append(text)
    return lines


def eventually(condition: Callable[[], bool], limit_s: float = 5.0) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_child_that_ends_is_started_again_and_that_is_said(tmp_path: Path):
    output = keep(tmp_path, "echo once >> runs; exit 3", 1.8)
    assert "The child ended (exit code 3) and starts again in 1 s" in output
    assert (tmp_path / "runs").read_text().count("once") == 2


def test_the_pause_before_a_restart_grows(tmp_path: Path):
    output = keep(tmp_path, "kill -9 $$", 4.0)
    assert "(signal SIGKILL) and starts again in 1 s" in output
    assert "starts again in 2 s" in output


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path):
    output = keep(tmp_path, "trap '' TERM; while true; do sleep 0.0717; done", 0.5)
    assert "left [] []" in output
    assert running("sleep 0.0717") == []


def test_grandchildren_in_sessions_of_their_own_are_found_and_killed(tmp_path: Path):
    output = keep(tmp_path, "setsid sleep 7171 & setsid setsid sleep 7172 & exit 0", 0.8)
    assert "left [] []" in output
    assert running("sleep 717") == []


def test_children_end_when_their_keeper_is_killed(tmp_path: Path):
    script = "trap '' TERM; while true; do sleep 0.0737; done"
    process = subprocess.Popen(keeper(tmp_path, script, 60), cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert eventually(lambda: running("sleep 0.0737") != [])
    finally:
        process.kill()
        process.wait(timeout=10)
    assert eventually(lambda: running("sleep 0.0737") == [])


def test_what_a_dead_child_left_behind_is_killed_before_it_starts_again(tmp_path: Path):
    look = (
        "grep -sq 'State:.[SR]' /proc/$(cat last)/status && echo left >> seen || echo gone >> seen"
    )
    script = (
        f"test -f last && {{ {look}; }}; setsid sleep 7474 & echo $! > last; sleep 0.2; kill -9 $$"
    )
    output = keep(tmp_path, script, 1.9, pause_s=0.3)
    assert output.count("starts again") >= 2
    assert set((tmp_path / "seen").read_text().split()) == {"gone"}
    assert "left [] []" in output


def test_it_gives_up_on_a_child_that_ends_at_once_again_and_again(tmp_path: Path):
    script = "echo the reason; echo once >> runs; exit 7"
    output = keep(tmp_path, script, 20, pause_s=0.01)
    assert (tmp_path / "runs").read_text().count("once") == 6
    assert output.count("starts again") == 5
    assert "gave up: The child ended 6 times in a row right after its start (exit code 7)" in output
    assert f"all of them in {tmp_path}/logs/child.log" in output
    assert "left [] []" in output


def test_what_a_child_says_goes_to_its_log(tmp_path: Path):
    keep(tmp_path, "echo out; echo err >&2; sleep 60", 0.4)
    assert (tmp_path / "logs" / "child.log").read_text() == "out\nerr\n"


def test_a_program_that_is_not_there_any_more_is_named(tmp_path: Path):
    program = Program("child", (str(tmp_path / "gone"),), {})
    household = Household(tmp_path, tmp_path / "logs", print)
    with pytest.raises(LaunchError, match=r"The child cannot be started: .*gone: No such file"):
        household.start(program)
