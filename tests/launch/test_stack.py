"""Whatever keeps a site from starting is one clear sentence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from launch.console import LaunchError
from launch.stack import HOST, environment_of, hold, listening, programs, running

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_busy_port_is_named_with_another_to_try():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(LaunchError, match=rf"Port {port} of 127.0.0.1.*make up PORT={port + 1}"),
            listening(port),
        ):
            pytest.fail("the port was taken")


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_a_port_that_is_none_is_refused(port: int):
    with pytest.raises(LaunchError, match="cannot be used"), listening(port):
        pytest.fail("there is no such port")


def test_port_0_takes_a_free_one():
    with listening(0) as listener:
        assert listener.getsockname()[1] > 0


def test_a_second_start_in_one_folder_says_where_the_first_one_runs(tmp_path: Path):
    with hold(tmp_path) as lock:
        os.pwrite(lock.handle, b'{"url": "http://127.0.0.1:8123", "pid": 1}', 0)
        assert running(tmp_path) == {"url": "http://127.0.0.1:8123", "pid": 1}
        with (
            pytest.raises(LaunchError, match=r"already runs at http://127\.0\.0\.1:8123"),
            hold(tmp_path),
        ):
            pytest.fail("the folder was held")
    assert running(tmp_path) is None
    with hold(tmp_path):
        pass


def test_it_is_known_that_the_last_site_here_was_killed(tmp_path: Path):
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from launch.stack import hold\n"
        "with hold(Path(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with hold(tmp_path) as lock:
        assert not lock.after_a_kill
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY)
    assert killed.returncode == -signal.SIGKILL
    assert running(tmp_path) is None
    with hold(tmp_path) as lock:
        assert lock.after_a_kill
    with hold(tmp_path) as lock:
        assert not lock.after_a_kill


def test_a_port_that_is_about_to_be_free_is_waited_for():
    taken = socket.socket()
    taken.bind((HOST, 0))
    taken.listen()
    port = taken.getsockname()[1]
    leaving = threading.Timer(0.5, taken.close)
    leaving.start()
    with listening(port, patience_s=10.0) as listener:
        assert listener.getsockname()[1] == port
    leaving.join()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LaunchError, match="set WARPSMITH_HOME to one that can"),
        hold(tmp_path / "file" / "home"),
    ):
        pytest.fail("a file is no folder")


def test_workers_get_neither_the_database_nor_the_secrets(tmp_path: Path):
    environ = {
        "PATH": "/usr/bin",
        "WARPSMITH_DATABASE_URL": "postgresql://x",
        "WARPSMITH_SECRET_KEY": "s" * 40,
        "WARPSMITH_SECRET_KEY_FILE": "/key",
        "WARPSMITH_ADMIN_PASSWORD": "p",
    }
    with listening(0) as listener:
        started = {program.name: program for program in programs(tmp_path, listener, environ)}
    for name in ("builder", "device worker"):
        given = started[name].environment
        assert not {
            key for key in given if "SECRET" in key or "DATABASE" in key or "PASSWORD" in key
        }
        assert given["WARPSMITH_HOME"] == str(tmp_path)
    assert started["web server"].environment["WARPSMITH_DATABASE_URL"] == "postgresql://x"
    assert "redis server" in started


def test_a_redis_of_ones_own_is_used_instead(tmp_path: Path):
    environ = {"WARPSMITH_REDIS_URL": "redis://127.0.0.1:6379/0"}
    with listening(0) as listener:
        names = [program.name for program in programs(tmp_path, listener, environ)]
    assert "redis server" not in names


def test_our_programs_are_found_before_the_systems(tmp_path: Path):
    first = environment_of(tmp_path, {"PATH": "/usr/bin"})["PATH"].split(os.pathsep)[0]
    assert first.endswith("/.venv/bin")
