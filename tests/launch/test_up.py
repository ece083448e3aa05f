"""`up` as a newcomer meets it: it starts, says where, refuses a second start, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.listener import signed_in_cookie
from launch.own_site import OwnSite, own_site
from launch.seed import example_names, recordings
from launch.stack import running

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]


def processes_of(home: Path) -> list[str]:
    """Command lines of living processes that were started for a run-time folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            settings = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"WARPSMITH_HOME={home}".encode() in settings or f"{home}/redis.sock" in command:
            found.append(command)
    return found


def up(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "launch", "up", "--home", str(home), *more]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    home = tmp_path_factory.mktemp("up")
    with own_site(home, os.environ, examples=True) as running_site:
        yield running_site
    assert running(home) is None
    assert processes_of(home) == []


def test_it_answers_and_the_link_signs_in(site: OwnSite):
    with urllib.request.urlopen(f"{site.url}/healthz", timeout=10) as answer:
        assert answer.status == 200
    request = urllib.request.Request(site.url, headers={"Cookie": signed_in_cookie(site.entry)})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert "login" not in answer.url
        assert b"Problems" in answer.read()


def test_the_examples_are_uploaded_once(site: OwnSite):
    stamp = site.home / "seeded.json"
    end = time.monotonic() + 30
    while not stamp.exists() and time.monotonic() < end:
        time.sleep(0.1)
    wanted = [*(path.name for path in recordings()), *example_names()]
    assert json.loads(stamp.read_text()) == wanted
    assert len(site.client.get("problems")["results"]) == len(example_names())


def test_a_second_start_is_one_sentence(site: OwnSite):
    result = up(site.home, "--port", "0")
    assert result.returncode == 1
    assert result.stderr.strip().splitlines() == [
        f"Warpsmith already runs at {site.url} with the folder {site.home}; stop it first, or set "
        "WARPSMITH_HOME to another folder."
    ]


def test_a_busy_port_is_one_sentence(site: OwnSite, tmp_path: Path):
    port = site.url.rpartition(":")[2]
    result = up(tmp_path, "--port", port)
    assert result.returncode == 1
    assert f"Port {port} of 127.0.0.1 cannot be used (Address already in use)" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("victim", ["uvicorn", "redis-server", "sessions_host", "-Q device.cpu"])
def test_a_process_that_dies_is_started_again(site: OwnSite, victim: str):
    def found() -> list[int]:
        return [
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if victim in _command(entry) and _parent(entry) == site.pid
        ]

    before = found()
    assert len(before) == 1
    os.kill(before[0], signal.SIGKILL)
    end = time.monotonic() + 20
    while (found() in ([], before)) and time.monotonic() < end:
        time.sleep(0.1)
    after = found()
    assert len(after) == 1
    assert after != before
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{site.url}/healthz", timeout=20) as answer:
                assert answer.status == 200
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("the site did not come back")


def test_ctrl_c_stops_everything_in_a_moment(tmp_path: Path):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "launch",
            "up",
            "--home",
            str(tmp_path),
            "--port",
            "0",
            "--no-examples",
        ],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "Ctrl-C" in line:
            break
    assert len(processes_of(tmp_path)) >= 6
    started = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=40)
    assert process.returncode == 0, rest
    assert rest.strip().splitlines()[-1] == "Stopped."
    assert time.monotonic() - started < 20
    assert processes_of(tmp_path) == []
    assert any("sign in once" in line for line in said)
    assert any("sandbox" in line for line in said)


def test_a_site_of_a_test_that_is_killed_ends_with_it(tmp_path: Path):
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from launch.own_site import own_site\n"
        "with own_site(Path(sys.argv[1]), os.environ):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    holder.kill()
    holder.wait(timeout=10)
    end = time.monotonic() + 30
    while processes_of(tmp_path) and time.monotonic() < end:
        time.sleep(0.2)
    assert processes_of(tmp_path) == []


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
