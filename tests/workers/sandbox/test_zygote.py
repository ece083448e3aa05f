"""Forks of the warm process are shut in like programs that were started: asked from inside a runner."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.evaluation.config import WorkerConfig
from workers.evaluation.crew import PROBLEM_ROLES, Crew, CrewMaker, forked_kind, runner_profile
from workers.protocol import wire
from workers.sandbox import SandboxedProcess, SandboxError, choose
from workers.sandbox.zygote import Zygote

Ask = Callable[[str], Any]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> WorkerConfig:
    folder = tmp_path_factory.mktemp("zygote")
    return WorkerConfig(folder / "artifacts", folder / "cache", Path(sys.executable))


@pytest.fixture(scope="module")
def zygote(config: WorkerConfig) -> Iterator[Zygote]:
    profile = runner_profile(config, "candidate")
    environment = {**profile.environment, "SECRET_OF_THE_HOST": "1"}
    warm = Zygote([sys.executable, "-P", "-s", "-m", "workers.device.zygote"], environment)
    yield warm
    warm.close()


@pytest.fixture
def kind() -> str:
    choice = choose("namespaces")
    if choice.problem:
        pytest.skip(choice.problem)
    return choice.kind


class Runner:
    """A forked candidate runner with this test in the judge's place."""

    def __init__(self, zygote: Zygote, config: WorkerConfig, kind: str) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            self.process: SandboxedProcess = zygote.fork(
                runner_profile(config, "candidate"), kind=kind, link=theirs.fileno()
            )
        self.channel = wire.Channel(mine)
        self.channel.set_timeout(20.0)
        self.hello = self.channel.receive()

    def ask(self, code: str) -> Any:
        """Value of `answer` after running code where a candidate's model file would run."""
        text = f"import json, os, sys\n{code}\nraise RuntimeError('<' + json.dumps(answer) + '>')\n"
        self.channel.send_file("model.py", text.encode())
        self.channel.send_json(wire.Kind.COMMAND, {"do": "load_problem", "seed": 1})
        message = str(self.channel.receive().json()["message"])
        return json.loads(message[message.index("<") + 1 : message.rindex(">")])


@pytest.fixture
def runner(zygote: Zygote, config: WorkerConfig, kind: str) -> Iterator[Runner]:
    made = Runner(zygote, config, kind)
    yield made
    made.channel.close()
    made.process.kill()


def test_torch_is_there_at_once(runner: Runner) -> None:
    assert runner.hello.kind is wire.Kind.HELLO
    assert runner.ask("answer = 'torch' in sys.modules") is True


def test_files_of_the_host_do_not_exist_inside(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    assert runner.ask(f"answer = os.path.exists({str(tmp_path / 'secret')!r})") is False
    readme = Path(__file__).resolve().parents[3] / "README.md"
    assert readme.exists()
    assert runner.ask(f"answer = os.path.exists({str(readme)!r})") is False
    assert runner.ask("answer = os.path.exists('/var/log')") is False
    assert runner.ask("answer = os.path.exists('/old') or os.path.exists('/new')") is False


def test_nothing_outside_memory_folders_can_be_written(runner: Runner) -> None:
    code = """
def writes(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        return True
    except OSError:
        return False
answer = [writes(p) for p in ("/x", "/usr/x", "/etc/x", "/dev/x", sys.prefix + "/x", "/tmp/x")]
"""
    assert runner.ask(code) == [False, False, False, False, False, True]


def test_only_its_own_socket_and_streams_are_open(runner: Runner) -> None:
    kinds = runner.ask(
        "answer = sorted(os.readlink('/proc/self/fd/' + n).split(':')[0] for n in os.listdir('/proc/self/fd')"
        " if os.path.exists('/proc/self/fd/' + n) or n in '012')"
    )
    assert [k for k in kinds if k == "socket"] == ["socket"]
    assert [k for k in kinds if k not in ("socket", "pipe", "/dev/null")] == []
    assert kinds.count("pipe") == 2  # standard output and error


def test_the_environment_is_the_profiles(runner: Runner) -> None:
    names = runner.ask("answer = sorted(os.environ)")
    assert "SECRET_OF_THE_HOST" not in names
    assert "OMP_NUM_THREADS" in names


def test_no_privileges_and_no_way_to_new_ones(runner: Runner) -> None:
    status = runner.ask(
        "answer = dict(l.split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)"
    )
    assert {int(status[f"Cap{name}"], 16) for name in ("Eff", "Prm", "Inh", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) == {str(60578)}


def test_every_namespace_is_its_own(runner: Runner) -> None:
    names = ("mnt", "pid", "net", "ipc", "uts")
    inside = runner.ask(f"answer = [os.readlink('/proc/self/ns/' + n) for n in {names!r}]")
    outside = [str(Path(f"/proc/self/ns/{name}").readlink()) for name in names]
    assert not set(inside) & set(outside)
    assert runner.ask("answer = sorted(p for p in os.listdir('/proc') if p.isdigit())") == [
        "1",
        "2",
    ]


def test_frames_above_hold_nothing_of_outside(runner: Runner) -> None:
    code = """
frame, found = sys._getframe(), []
while frame:
    found += [k for k, v in frame.f_locals.items() if k == 'plan' and v]
    frame = frame.f_back
answer = found
"""
    assert runner.ask(code) == []


def test_two_forks_cannot_see_each_other(
    zygote: Zygote, config: WorkerConfig, runner: Runner, kind: str
) -> None:
    other = Runner(zygote, config, kind)
    try:
        runner.ask("open('/tmp/mark', 'w').close(); answer = 1")
        assert other.ask("answer = os.path.exists('/tmp/mark')") is False
        assert other.ask("import builtins; builtins.mark = 1; answer = 1") == 1
        assert runner.ask("import builtins; answer = hasattr(builtins, 'mark')") is False
    finally:
        other.channel.close()
        other.process.kill()


def test_how_it_ended_is_told(zygote: Zygote, config: WorkerConfig, kind: str) -> None:
    for code, signal_, exit_code in (
        ("os.kill(os.getpid(), 11)", 11, None),
        ("os._exit(7)", None, 7),
    ):
        made = Runner(zygote, config, kind)
        with pytest.raises(wire.PeerGone):
            made.ask(f"{code}\nanswer = 1")
        ended = made.process.wait(5.0)
        assert (ended.signal, ended.code, ended.killed) == (signal_, exit_code, False)
        made.channel.close()


def test_it_ends_when_the_judge_is_gone(zygote: Zygote, config: WorkerConfig, kind: str) -> None:
    made = Runner(zygote, config, kind)
    made.channel.close()
    assert made.process.wait(5.0).code == 0


def test_forks_die_with_the_zygote(config: WorkerConfig, kind: str) -> None:
    crews = CrewMaker(config, kind)
    crew = crews.take(PROBLEM_ROLES)
    warm = crews._zygote
    assert warm is not None
    os.kill(warm._process.pid, signal.SIGKILL)
    ended = crew.runners["eager"].wait(5.0)
    assert not ended.ok
    assert not _inside(crew)
    # And the next crew comes from a new one.
    crew.close()
    again = crews.take(PROBLEM_ROLES)
    assert again.runners["eager"].inner_pid(10.0) > 0
    again.close()
    crews.close()


def test_nothing_of_a_closed_maker_is_left(config: WorkerConfig, kind: str) -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    crews = CrewMaker(config, kind)
    crew = crews.take(PROBLEM_ROLES)
    pids = [crew.runners["eager"].inner_pid(10.0), crew.judge.pid]
    crew.close()
    crew.said("eager"), crew.said("judge")
    crews.close()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    left = set(os.listdir("/proc/self/fd")) - before  # noqa: PTH208
    assert not left, [str(Path(f"/proc/self/fd/{n}").readlink()) for n in left]


def test_a_fork_is_ready_in_a_fraction_of_a_second(
    zygote: Zygote, config: WorkerConfig, kind: str
) -> None:
    Runner(zygote, config, kind).process.kill()  # the zygote itself is warm now
    started = time.monotonic()
    made = Runner(zygote, config, kind)
    assert time.monotonic() - started < 2.0  # an interpreter that imports torch takes longer
    made.channel.close()
    made.process.kill()


def test_a_zygote_that_cannot_start_says_so(config: WorkerConfig, kind: str) -> None:
    broken = Zygote([sys.executable, "-c", "raise SystemExit(3)"], {})
    mine, theirs = socket.socketpair()
    with mine, theirs, pytest.raises(SandboxError, match="warm process"):
        broken.fork(runner_profile(config, "candidate"), kind=kind, link=theirs.fileno())
    broken.close()


def test_a_sandbox_asked_for_by_name_is_the_one_that_is_used() -> None:
    assert forked_kind("bubblewrap", "bubblewrap") == ""
    assert forked_kind("none", "none") == "none"
    assert forked_kind("namespaces", "namespaces") == "namespaces"


def _inside(crew: Crew) -> list[int]:
    return crew.runners["eager"].pids()
