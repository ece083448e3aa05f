"""The author's shell: the same files as the tools, the judge's commands, and an end to everything."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from agent.author import Ending, Reply
from agent.config import Limits
from agent.control import Uncontrolled
from agent.errors import Cancelled
from agent.history import next_turn
from agent.loop import run
from agent.session import SessionInput, SessionState
from workers.protocol.transcript import ToolCall
from workers.protocol.verdict import Status
from workers.sandbox import choose
from workers.workspace.desk import DeskSettings

PROBLEM = {"model.py": b"class Model: ...\n", "problem.toml": b"threads = 1\n"}
FILES = {"model_new.py": b"2.0", "kernels/a.cpp": b"int a;\n"}
DONE = Reply("That is all.", ending=Ending.DONE)


class Playwright:
    """An author that says given replies in order; a pure function of the transcript."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = replies

    async def reply(self, task, transcript, delta) -> Reply:
        return self.replies[min(next_turn(transcript), len(self.replies)) - 1]


def bash(command: str, **more) -> ToolCall:
    return ToolCall("b", "bash", {"command": command, **more})


def call(tool: str, **arguments) -> ToolCall:
    return ToolCall(tool, tool, arguments)


def by_number(make_verdict):
    """Grades a workspace by the number that its model_new.py holds."""
    return lambda files: make_verdict(speedup=float(files["model_new.py"]))


@pytest.fixture
def desks(tmp_path) -> DeskSettings:
    if problem := choose("auto").problem:
        pytest.skip(problem)
    return DeskSettings(Path(sys.executable), "auto", tmp_path / "scratch")


@pytest.fixture
def play(desks, notebook, make_examiner, make_verdict, tmp_path):
    """Plays tool calls, one turn each tuple, and gives the observations; nothing may be left behind."""

    async def go(*turns, limits=None, control=None, session=None, grade=None, author=None):
        replies = [Reply(f"turn {n}", calls) for n, calls in enumerate(turns, 1)]
        session = session or SessionInput(PROBLEM, workspace=FILES, limits=limits or Limits())
        go.result = await run(
            session,
            author or Playwright(*replies, DONE),
            make_examiner(grade or by_number(make_verdict)),
            notebook,
            control or Uncontrolled(),
            desks,
        )
        return [r for t in notebook.turns for e in t.entries for r in e.results]

    yield go
    assert list((tmp_path / "scratch").glob("*")) == []
    assert not [p for p in processes() if "/judge/driver.py" in p and str(tmp_path) in p]


def processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


async def test_an_author_that_only_uses_the_three_commands_finishes_with_a_verdict(play, notebook):
    seen = await play(
        (bash("echo 3.0 >model_new.py; bash utils/compile.sh; echo compiled $?"),),
        (
            bash(
                "python3 -m utils.verification --json >/tmp/v.json; echo $?; head -c 20 /tmp/v.json"
            ),
        ),
        (bash("sudo python3 -m utils.profiling"), call("read", path="model_new.py")),
    )
    assert play.result.state is SessionState.FINISHED
    assert play.result.best.speedup.median == 3.0
    assert "compiled 0" in seen[0].text
    assert '{"status": "passed"' in seen[1].text
    assert "speed-up 3.00x" in seen[2].text
    assert "3.0" in seen[3].text
    assert [v["status"] for v in seen[2].data["verdicts"]] == ["passed"]
    kinds = notebook.kinds()
    first = kinds.index("tool.started")
    assert kinds[first : first + 5] == [
        "tool.started",
        "snapshot",
        "evaluation",
        "best",
        "tool.finished",
    ]
    stages = [body["stage"] for kind, body in notebook.events if kind == "evaluation"]
    assert stages == ["build", "verify", "time"]


async def test_the_commands_end_as_their_verdict_says(play, make_verdict):
    verdicts = iter(
        [
            make_verdict(Status.INCORRECT, summary="it is wrong"),
            make_verdict(Status.UNMEASURED, summary="too busy"),
        ]
    )
    seen = await play(
        (
            bash(
                "python3 -m utils.verification; echo code $?; python3 -m utils.profiling; echo code $?"
            ),
        ),
        (bash("python3 -m utils.verification --what 2>&1; echo code $?"),),
        (bash("cd kernels; PYTHONPATH=.. python3 -m utils.compile --help | head -1"),),
        grade=lambda files: next(verdicts),
    )
    assert seen[0].text.splitlines()[:4] == [
        "incorrect: it is wrong",
        "code 1",
        "unmeasured: too busy",
        "code 1",
    ]
    assert "code 2" in seen[1].text
    assert "usage" in seen[2].text


async def test_tools_and_shell_see_the_same_files(play, notebook):
    seen = await play(
        (bash("true"), call("write", path="kernels/b.cpp", content="int b;\n")),
        (bash("cat kernels/b.cpp; sed -i s/b/c/ kernels/b.cpp; rm kernels/a.cpp"),),
        (call("read", path="kernels/b.cpp"), call("glob", pattern="kernels/*")),
        (call("edit", path="kernels/b.cpp", old="int c", new="int d"), bash("cat kernels/b.cpp")),
    )
    assert seen[2].text.splitlines()[0] == "int b;"
    assert "files changed: kernels/a.cpp, kernels/b.cpp" in seen[2].text
    assert "int c;" in seen[3].text
    assert seen[4].text == "kernels/b.cpp"
    assert seen[6].text == "int d;"
    assert notebook.turns[-1].files == {"model_new.py": b"2.0", "kernels/b.cpp": b"int d;\n"}


async def test_a_job_in_the_background_changes_files_and_asks_the_judge_later(play, notebook):
    seen = await play(
        (bash("(sleep 0.3; echo 4.0 >model_new.py; python3 -m utils.profiling >/tmp/out 2>&1) &"),),
        (call("todo", items=[]),),
        (bash("wait; sleep 0.1; cat /tmp/out; jobs"),),
    )
    assert seen[0].text == "(no output)"
    assert "speed-up 4.00x" in seen[2].text
    assert play.result.best.speedup.median == 4.0
    # Whatever is judged, is judged while a command of the author's runs.
    kinds = notebook.kinds()
    at = kinds.index("evaluation")
    assert "tool.started" in kinds[at - 3 : at]
    assert "tool.finished" in kinds[at : at + 4]


MISDEEDS = {
    "leaves the workspace": ("cd /; ls /root /home /work; cat /etc/shadow; touch /x", "cannot"),
    "runs for ever": ("while :; do :; done", "did not end within 1 s"),
    "ignores signals": ("trap '' INT TERM HUP; (trap '' TERM; sleep 60) & wait", "did not end within 1 s"),
    "stops its parent": ("kill -STOP $PPID; sleep 60", "did not end within 1 s"),
    "stops itself": ("kill -STOP $$", "did not end within 1 s"),
    "prints a gigabyte": ("head -c 1G /dev/zero", "printed more than 64 MiB"),
    "forks without end": ("f() { f | f & }; f; sleep 60", "did not end within 1 s"),
    "edits the reference": ("echo x >model.py", "Read-only file system"),
    "edits the judge's clients": ("echo x >utils/judge.py", "Read-only file system"),
    "links to a host file": ("ln -sf /etc/passwd model_new.py", "model_new.py is a link"),
    "replaces the folder by a link": ("rm -r kernels; ln -s /etc kernels", "kernels is no folder"),
    "makes a pipe of a file": ("rm model_new.py; mkfifo model_new.py", "no plain file"),
    "writes too large a file": ("head -c 2M /dev/zero >kernels/x.cpp", "so it was left out"),
    "kills its parent": ("kill -9 $PPID; sleep 60", "The shell was ended"),
    "kills everything": ("kill -9 -1; sleep 60", "The shell was ended"),
    "fills the disk": ("cat /dev/zero >fill; cat /dev/zero >/tmp/fill", "No space left"),
    "takes the memory": ("python3 -c 'x = [bytearray(1 << 30) for _ in range(99)]'", "MemoryError"),
    "removes the counter": ("rm -f /judge/socket; python3 -m utils.compile", "No judge listens here"),
    "forges the token": ("rm /judge/token; echo x >/judge/token; python3 -m utils.compile", "The token is not"),
    "says forbidden bytes": (r"printf 'a\0b\033[31mred\007\xff'", "red"),
}  # fmt: skip


@pytest.mark.parametrize("misdeed", MISDEEDS)
async def test_a_misbehaving_command_is_told_off_and_the_session_goes_on(play, misdeed):
    command, told = MISDEEDS[misdeed]
    began = time.monotonic()
    seen = await play(
        (bash(command, seconds=1.0 if "1 s" in told else 30.0),),
        (bash("rm -f fill /tmp/fill; true", seconds=10), bash("echo still here", seconds=10)),
        (call("read", path="model_new.py"), call("profile")),
    )
    assert told in seen[0].text
    assert "still here" in seen[2].text
    assert "2.0" in seen[3].text
    assert play.result.state is SessionState.FINISHED
    assert "\0" not in "".join(result.text for result in seen)
    assert time.monotonic() - began < 60


async def test_the_whole_of_a_long_output_can_be_read(play):
    seen = await play(
        (bash("seq 100000; exit 0"),),
        (
            call("read", path="outputs/1.txt", first_line=50000, lines=1),
            bash("sed -n 60000p outputs/1.txt"),
        ),
    )
    assert "all of the output is in outputs/1.txt" in seen[0].text
    assert seen[0].text.startswith("1\n2\n")
    assert "100000" in seen[0].text
    assert "bytes left out" in seen[0].text
    assert "  50000" in seen[1].text
    assert seen[2].text == "60000"


async def test_outputs_are_no_part_of_a_snapshot(play, notebook):
    await play((bash("seq 100000"),))
    assert set(notebook.turns[-1].files) == set(FILES)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": " "}, "is empty"),
        ({"command": "true", "seconds": 0}, "above 0"),
        ({"command": "true", "seconds": 1e9}, "at most 900"),
        ({"command": "x" * 200_000}, "`write` a file and run that"),
    ],
)
async def test_it_refuses_with_a_sentence(play, arguments, told):
    seen = await play((call("bash", **arguments),))
    assert not seen[0].ok
    assert told in seen[0].text


@pytest.mark.parametrize(
    "settings", [None, DeskSettings(Path(sys.executable), "none", Path("/tmp"))]
)
async def test_without_a_sandbox_the_tool_says_so_and_the_others_work(
    notebook, make_examiner, make_verdict, settings
):
    author = Playwright(Reply("a", (bash("true"), call("profile"))), DONE)
    session = SessionInput(PROBLEM, workspace=FILES)
    examiner = make_examiner(by_number(make_verdict))
    result = await run(session, author, examiner, notebook, Uncontrolled(), settings)
    refused, judged = notebook.turns[0].entries[-1].results
    assert not refused.ok
    assert "no shell" in refused.text
    assert judged.ok
    assert result.state is SessionState.FINISHED


class StopsAtThird:
    """Somebody stops the session at its third boundary: turn, tool, and then the judge's command."""

    def __init__(self) -> None:
        self.count = 0

    async def boundary(self) -> None:
        self.count += 1
        if self.count == 3:
            raise Cancelled("Enough of this.")


async def test_a_stop_ends_a_command_that_asks_the_judge(play, notebook):
    began = time.monotonic()
    seen = await play(
        (bash("sleep 60 & python3 -m utils.profiling; sleep 60"),), control=StopsAtThird()
    )
    assert (play.result.state, play.result.reason) == (SessionState.STOPPED, "Enough of this.")
    assert seen[0].text == "not run: Enough of this."
    assert "evaluation" not in notebook.kinds()
    assert time.monotonic() - began < 20


async def test_a_cancelled_session_leaves_nothing_behind(play):
    task = asyncio.create_task(play((bash("sleep 61 & sleep 62"),)))
    while not [p for p in processes() if p.startswith("sleep 62")]:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not [p for p in processes() if p.startswith(("sleep 61", "sleep 62"))]


async def test_a_command_never_runs_longer_than_the_session(play):
    began = time.monotonic()
    seen = await play((bash("sleep 60"),), limits=Limits(wall_seconds=2.0))
    assert "The session's time is used up" in seen[0].text
    assert play.result.state is SessionState.FAILED
    assert time.monotonic() - began < 20


async def test_a_judge_that_fails_twice_ends_the_session_from_inside_as_well(play, make_verdict):
    seen = await play(
        (bash("python3 -m utils.profiling; sleep 60"), call("glob")),
        grade=lambda files: make_verdict(Status.INFRASTRUCTURE, summary="The disk is full."),
    )
    assert play.result.state is SessionState.FAILED
    assert "The disk is full." in play.result.reason
    assert [result.ok for result in seen] == [False, False]


async def test_a_resumed_session_gets_a_new_shell_and_says_so(play, notebook):
    await play((bash("export X=1; echo 5.0 >model_new.py"),))
    first = notebook.turns[0]
    notebook.turns.clear()
    notebook.events.clear()
    resumed = SessionInput(PROBLEM, transcript=first.entries, workspace=first.files)
    script = Playwright(Reply("1"), Reply("2", (bash("echo [$X]; cat model_new.py"),)), DONE)
    seen = await play(session=resumed, author=script)
    assert "[]\n5.0" in seen[0].text
    assert "taken up again" in seen[0].text
    said = [
        body for kind, body in notebook.events if kind == "message" and body["role"] == "system"
    ]
    assert "taken up again" in said[0]["text"]


async def test_others_go_on_while_a_command_runs_and_prints(play):
    longest, ticking = 0.0, True

    async def tick():
        nonlocal longest
        while ticking:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    ticks = asyncio.create_task(tick())
    await play((bash("head -c 60M /dev/zero; seq 1000000; sleep 3"),))
    ticking = False
    await ticks
    assert longest < 2.0
