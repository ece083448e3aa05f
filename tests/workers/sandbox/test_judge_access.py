"""The judge stands outside, as the same user: it may stop and read; sandboxes may not touch each other.

Tried as the user who runs the tests, and as an ordinary user where the tests run as root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workers.sandbox import Profile, choose, spawn
from workers.sandbox.interpreters import python_profile_paths
from workers.sandbox.profiles import uid_of

PROJECT = Path(__file__).resolve().parents[3]
ORDINARY_UID = 61111

JUDGE = r"""
import ctypes, json, os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from workers.sandbox import Limits, Profile, choose, spawn

libc = ctypes.CDLL(None, use_errno=True)

class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

INSIDE = '''
import ctypes, sys, time
text = ctypes.create_string_buffer(b"bytes of the candidate", 64)
if sys.argv[1] == "hide":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print(ctypes.addressof(text), flush=True)
time.sleep(30)
'''

BOMB = '''
import os, time
try:
    for made in range(100):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
except BlockingIOError:
    print("stopped at", made)
'''

def read(kind, how):
    profile = Profile("test", "candidate", tmpfs={"/tmp": 1 << 20}, limits=Limits(processes=16))
    argv = ["/usr/bin/python3", "-c", INSIDE, how]
    with spawn(profile, argv, kind=kind, stdout=subprocess.PIPE) as process:
        address = int(process.stdout.readline())
        pid = process.inner_pid()
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + 5
        while (state := open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]) != "T":
            assert time.monotonic() < deadline
        text = ctypes.create_string_buffer(64)
        here, there = Part(ctypes.addressof(text), 22), Part(address, 22)
        got = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        uid = os.stat(f"/proc/{pid}").st_uid
        return {"state": state, "got": got, "text": text.value.decode(), "id": uid}

def shell(kind, identity, script):
    profile = Profile("test", identity, tmpfs={"/tmp": 1 << 20}, limits=Limits(processes=16))
    with spawn(profile, ["/bin/bash", "-c", script], kind=kind, stdout=subprocess.PIPE,
               stderr=subprocess.STDOUT) as process:
        process.wait(20)
        return process.stdout.read().decode()

kind = sys.argv[2]
problem = choose(kind).problem
result = {"problem": problem}
if not problem:
    result |= {"plain": read(kind, "show"), "hidden": read(kind, "hide")}
    result["status"] = shell(kind, "candidate", "grep -E '^(CapEff|NoNewPrivs)' /proc/self/status")
    result["bomb"] = shell(kind, "candidate", f"exec /usr/bin/python3 -I -S -c '{BOMB}'")
    result["secret"] = shell(kind, "candidate", "cat /etc/shadow " + sys.argv[1] + "/pyproject.toml 2>&1; ls /")
print(json.dumps(result))
"""


def _command() -> list[str]:
    """How to become an ordinary user for whom the system's Python can be run."""
    if not Path("/usr/bin/python3").exists() or not shutil.which("setpriv"):
        pytest.skip("needs /usr/bin/python3 and setpriv")
    user = ["setpriv", "--reuid", str(ORDINARY_UID), "--regid", str(ORDINARY_UID), "--clear-groups"]
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    return [*user, "/usr/bin/python3"]


@pytest.mark.parametrize("kind", ["bubblewrap", "namespaces"])
@pytest.mark.parametrize("who", ["same", "ordinary"])
def test_the_judge_may_stop_and_read_a_runner(kind, who, tmp_path):
    python = [sys.executable] if who == "same" else _command()
    if who == "ordinary" and sys.version_info[:2] != _version("/usr/bin/python3"):
        pytest.skip("/usr/bin/python3 is another version")
    # The checkout may lie where an ordinary user cannot read it.
    copy = tmp_path / "copy"
    shutil.copytree(
        PROJECT / "workers", copy / "workers", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in (copy, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    run = subprocess.run(
        [*python, "-B", "-c", JUDGE, str(copy), kind],
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    if result["problem"]:
        pytest.skip(result["problem"])
    for how in ("plain", "hidden"):
        assert result[how]["state"] == "T"
        assert result[how]["text"] == "bytes of the candidate"
    assert "CapEff:\t0000000000000000" in result["status"]
    assert "NoNewPrivs:\t1" in result["status"]
    assert int(result["bomb"].removeprefix("stopped at ")) <= 16
    assert "root:" not in result["secret"]
    assert "[project]" not in result["secret"]
    if os.geteuid() == 0:
        expected = uid_of("candidate") if who == "same" else ORDINARY_UID
        assert result["plain"]["id"] == expected


def _version(python: str) -> tuple[int, int]:
    code = "import sys; print(*sys.version_info[:2])"
    major, minor = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return int(major), int(minor)


def test_identities_cannot_touch_each_other(kind):
    reference = Profile("test", "reference", tmpfs={"/tmp": 1 << 20})
    candidate = Profile("test", "candidate", tmpfs={"/tmp": 1 << 20})
    with spawn(reference, ["/bin/sleep", "31"], kind=kind) as victim:
        pid = victim.inner_pid()
        script = f"kill -9 {pid} 2>&1; ls /proc/{pid} 2>&1; ls /proc | grep -c '^[0-9]'"
        with spawn(
            candidate, ["/bin/bash", "-c", script], kind=kind, stdout=subprocess.PIPE
        ) as process:
            process.wait(10)
            text = process.stdout.read().decode()
        assert "No such" in text
        assert victim.poll() is None
        if os.geteuid() == 0:
            assert Path(f"/proc/{pid}").stat().st_uid == uid_of("reference") != uid_of("candidate")


def test_choose_names_a_kind_or_the_command_that_helps():
    assert choose("none").kind == "none"
    for setting in ("auto", "bubblewrap", "namespaces"):
        choice = choose(setting)
        assert bool(choice.kind) != bool(choice.problem)
        if choice.problem:
            assert ":" in choice.problem


def test_where_no_sandbox_works_it_names_the_command_that_helps(kind):
    """Tried for real: inside a sandbox no second one can be made."""
    python = Path(sys.executable)
    workers = PROJECT / "workers"
    profile = Profile(
        "test",
        "agent",
        readable=python_profile_paths(python),
        mounted={"/project/workers": workers},
        tmpfs={"/tmp": 1 << 20},
    )
    code = "import sys; sys.path.insert(0, '/project'); from workers.sandbox import choose; print(choose('auto'))"
    argv = [str(python), "-B", "-S", "-c", code]
    with spawn(
        profile, argv, kind=kind, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        process.wait(30)
        text = process.stdout.read().decode()
    assert "No sandbox works here" in text
    assert "with: " in text
