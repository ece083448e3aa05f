"""A desk is a shell that keeps its state, can change only the author's files, and can always be cleared."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.sandbox import choose
from workers.workspace.desk import Desk, DeskError, DeskSettings
from workers.workspace.mirror import Mirror

ROOT = Path(__file__).resolve().parents[3]
PROBLEM = {"model.py": b"the reference\n"}


@pytest.fixture(params=["bubblewrap", "namespaces"])
def kind(request) -> str:
    if problem := choose(request.param).problem:
        pytest.skip(problem)
    return request.param


class Bench:
    """A desk driven step by step."""

    def __init__(self, kind: str, scratch: Path) -> None:
        self.desk = Desk(DeskSettings(Path(sys.executable), kind, scratch), PROBLEM)
        self.mirror = Mirror(self.desk.folder, self.desk.owner)
        self.mirror.put({"model_new.py": b"a = 1\n", "kernels/a.cpp": b"int a;\n"})
        os.set_blocking(self.desk.output, False)
        self.said = b""

    def send(self, command: str) -> None:
        self.desk.control.send(json.dumps({"command": command}).encode())

    def answer(self, seconds: float = 20.0) -> dict:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ready, _, _ = select.select([self.desk.control, self.desk.output], [], [], 0.1)
            if self.desk.output in ready:
                self.said += os.read(self.desk.output, 1 << 16)
            if self.desk.control in ready:
                text = self.desk.control.recv(1 << 18)
                return json.loads(text) if text else {}
        raise AssertionError("no answer")

    def run(self, command: str) -> str:
        """What a command printed."""
        self.said = b""
        self.send(command)
        self.last = self.answer()
        while select.select([self.desk.output], [], [], 0)[0]:
            part = os.read(self.desk.output, 1 << 16)
            if not part:
                break
            self.said += part
        return self.said.decode()


@pytest.fixture
def bench(kind, tmp_path):
    bench = Bench(kind, tmp_path / "scratch")
    yield bench
    bench.mirror.close()
    bench.desk.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_folder_variables_functions_and_jobs_last_from_command_to_command(bench):
    bench.run("cd kernels; X=5; export Y=6; f() { echo f $1; }; sleep 60 &")
    assert bench.run("pwd; f $X; printenv Y; jobs").splitlines()[:3] == [
        "/workspace/kernels",
        "f 5",
        "6",
    ]
    assert "sleep 60" in bench.said.decode()
    assert bench.last["code"] == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("false", 1),
        ("(exit 7)", 7),
        ("break; continue", 0),
        ("return 4", None),
        ("echo 'open quote", None),
        ("cat", 0),
        ("read line", 1),
        ("trap 'echo bye' EXIT; set -u; exec 3>&-; echo $((1+1))", 0),
    ],
)
def test_odd_commands_leave_the_shell_alive(bench, command, code):
    bench.run(command)
    assert code is None or bench.last["code"] == code
    assert bench.run("echo alive").strip() == "alive"


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("exit 3", "exit code 3"),
        ("set -e; false", "exit code 1"),
        ("exec sleep 0", "exit code 0"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_a_bash_that_ends_is_replaced_in_the_same_folder(bench, command, how):
    bench.run("cd kernels; X=5; echo kept >/tmp/kept")
    bench.run(command)
    assert how in bench.last["ended"]
    assert bench.run("pwd; echo [$X]; cat /tmp/kept").split() == [
        "/workspace/kernels",
        "[]",
        "kept",
    ]


def test_only_the_authors_files_can_be_changed(bench):
    attempts = ["echo x >model.py", "rm -f model.py", "mv utils old", "touch utils/x.py"]
    attempts += [
        "mv model.py m",
        "ln -sf /etc/passwd model.py",
        "rm -rf utils SKILL.md problem.toml",
    ]
    attempts += [
        "mkdir -p /workspace/../x",
        "touch /usr/x",
        "echo >/etc/ld.so.conf",
        "chmod 777 utils",
    ]
    for attempt in attempts:
        bench.run(attempt)
        assert bench.last["code"] != 0, attempt
    assert bench.run("cat model.py; ls utils").split()[:2] == ["the", "reference"]
    assert "compile.sh" in bench.said.decode()
    bench.run("echo 'a = 2' >model_new.py; rm kernels/a.cpp; echo 'int b;' >kernels/b.cpp")
    assert bench.mirror.take({}).files == {
        "model_new.py": b"a = 2\n",
        "kernels/b.cpp": b"int b;\n",
    }


def test_nothing_of_the_machine_is_there_but_the_toolchain_and_python(bench):
    hidden = "/root/.bashrc /home/* /etc/shadow /var/log /run/*"
    bench.run(f"cat {hidden} 2>/dev/null")
    assert bench.said == b""
    assert (
        bench.run(
            "echo 'int main(){return 3;}' >/tmp/x.cpp; g++ /tmp/x.cpp -o /tmp/x; /tmp/x; echo $?"
        ).strip()
        == "3"
    )
    assert bench.run("sudo python3 -c 'import sys; print(sys.prefix)'").strip() == sys.prefix
    assert "unreachable" in bench.run(
        "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 3)\" 2>&1 | tail -1"
    )


def test_an_endless_command_is_ended_with_all_that_it_started_and_earlier_jobs_live_on(bench):
    bench.run("sleep 71 & (setsid sleep 72 >/dev/null 2>&1 &)")
    before = bench.desk.pids()
    bench.send("sleep 73 & (setsid nohup sleep 74 &) ; trap '' TERM INT; while :; do :; done")
    time.sleep(0.7)
    assert bench.desk.end_command(before)
    assert "signal 9" in bench.answer()["ended"]
    running = bench.run("ps -eo args | grep '^sleep'").split()
    assert [word for word in running if word != "sleep"] == ["71", "72"]


def test_a_fork_bomb_is_bounded_and_can_be_cleared(bench):
    before = bench.desk.pids()
    bench.send("b() { b | b & }; b; while :; do sleep 1; done")
    time.sleep(1.5)
    assert len(bench.desk.pids()) < 260
    cleared = bench.desk.end_command(before)
    # Where it breeds too fast for that, the whole desk is closed.
    assert cleared or bench.desk.process.poll() is not None
    if cleared:
        bench.answer()
        assert bench.run("echo alive").strip().endswith("alive")


def test_whoever_kills_the_driver_loses_the_desk_and_no_file(bench):
    bench.send("echo 'a = 3' >model_new.py; sleep 60 & kill -9 $PPID; sleep 60")
    assert bench.answer() == {}
    bench.desk.process.wait(5)
    assert bench.desk.pids() == set()
    assert bench.mirror.take({}).files["model_new.py"] == b"a = 3\n"


def test_disk_and_memory_are_bounded(bench):
    bench.run("head -c 1G /dev/zero >big; head -c 2G /dev/zero >/tmp/big; stat -c %s big /tmp/big")
    sizes = [int(word) for word in bench.said.split() if word.isdigit()]
    assert sizes
    assert max(sizes) <= 512 << 20
    assert "MemoryError" in bench.run("python3 -c 'bytearray(1 << 40)' 2>&1 | tail -1")
    problems = bench.mirror.put({"model_new.py": b"x" * 100_000})
    assert "could not be put into the folder" in problems[0]
    bench.run("rm big")
    assert bench.mirror.put({"model_new.py": b"x" * 100_000}) == ()


def test_a_standing_desk_uses_no_processor_and_goes_on_afterwards(bench):
    bench.run("(while :; do echo >>/tmp/ticks; done) & sleep 0.2")
    bench.desk.stand_still()
    time.sleep(0.1)
    used = [_ticks(pid) for pid in sorted(bench.desk.pids())]
    time.sleep(0.3)
    assert [_ticks(pid) for pid in sorted(bench.desk.pids())] == used
    bench.desk.go_on()
    assert bench.run("sleep 0.2; kill %1; echo on").strip() == "on"


def test_a_desk_dies_with_the_process_that_opened_it(kind, tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from workers.workspace.desk import *\n"
        f"desk = Desk(DeskSettings(Path(sys.executable), {kind!r}, Path({str(tmp_path)!r})), {{}})\n"
        'desk.control.setblocking(True); desk.control.send(b\'{"command": "sleep 60 & sleep 60"}\')\n'
        "time.sleep(0.5); print(*desk.pids(), flush=True); time.sleep(60)\n"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None
    pids = [int(word) for word in maker.stdout.readline().split()]
    assert len(pids) >= 4
    maker.kill()
    maker.communicate()
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    # What it left on disk is swept by the next one.
    assert len(list(tmp_path.iterdir())) == 1
    Bench(kind, tmp_path).desk.close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_sandbox_there_is_no_desk_and_the_reason_says_what_to_do(tmp_path):
    settings = DeskSettings(Path(sys.executable), "none", tmp_path)
    with pytest.raises(DeskError, match="WARPSMITH_UNSANDBOXED"):
        Desk(settings, PROBLEM)


def test_an_interpreter_that_cannot_run_is_told(tmp_path, kind):
    with pytest.raises(DeskError, match="cannot be run"):
        Desk(DeskSettings(Path("/nowhere/python"), kind, tmp_path / "scratch"), PROBLEM)
    assert list((tmp_path / "scratch").iterdir()) == []


def _ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])
