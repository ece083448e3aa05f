"""A real site with all its processes, of which tests kill some while a session runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.client import Client
from launch.console import LaunchError
from launch.listener import Listener, signed_in_cookie
from launch.own_site import OwnSite
from workers.sandbox.profiles import is_root, uid_of

MODEL = '''"""Scale, shift and relu: kernels for it are found in the first turns."""

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(512))

    def forward(self, x):
        return torch.relu(x * self.scale + 1.0)


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
'''

PARTS = {
    "redis": "redis-server",
    "web": "uvicorn",
    "recorder": "webapp.celery_app",
    "session host": "sessions_host",
    "builder": "-Q build",
    "device worker": "-Q device.cpu",
}
FINAL = ("stopped", "finished", "failed", "crashed")

TURN_S = 150.0
"""Longest time that a turn may take beside everything else that this machine does."""


@dataclass(frozen=True, order=True)
class Process:
    """A process that is told apart from a later one of the same number."""

    pid: int
    born: int

    @property
    def alive(self) -> bool:
        found = _stat(self.pid)
        return found is not None and found[2] == self.born and found[1] not in "ZX"

    @property
    def command(self) -> str:
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return words.replace(b"\0", b" ").decode(errors="replace")

    @property
    def stands(self) -> bool:
        """Whether it was stopped by a signal."""
        found = _stat(self.pid)
        return found is not None and found[1] == "T"

    @property
    def user(self) -> int | None:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}").stat().st_uid
        return None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _stat(pid: int) -> tuple[int, str, int] | None:
    """Parent, state and time of birth."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0], int(fields[19])


def below(root: int) -> list[Process]:
    """The living processes that descend from one."""
    seen = {int(p.name): _stat(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    living = {pid: stat for pid, stat in seen.items() if stat is not None and stat[1] not in "ZX"}
    found = {root}
    while more := {pid for pid, stat in living.items() if stat[0] in found} - found:
        found |= more
    return sorted(Process(pid, living[pid][2]) for pid in found - {root})


def eventually(what: str, condition: Callable[[], Any], limit_s: float) -> Any:
    """Wait until a condition gives something true, and hand that on."""
    end = time.monotonic() + limit_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"after {limit_s:g} s still not: {what}"
        time.sleep(0.02)


@dataclass
class Reader:
    """A page that follows a session's socket, and comes back from where it was when that breaks."""

    url: str
    cookie: str
    session: str
    seen: list[dict[str, Any]] = field(default_factory=list)
    wrong: str = ""
    ending: threading.Event = field(default_factory=threading.Event)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self.ending.is_set() and not self.wrong:
            path = f"/ws/streams/{self.session}/?after={len(self.seen)}"
            with contextlib.suppress(OSError, LaunchError):
                listener = Listener(self.url, path, self.cookie, timeout_s=20)
                with contextlib.closing(listener):
                    for frame in listener.frames():
                        self._note(frame)
                        if self.ending.is_set():
                            return
            time.sleep(0.1)

    def _note(self, frame: dict[str, Any]) -> None:
        for event in frame.get("events", []):
            if event["seq"] != len(self.seen) + 1:
                self.wrong = f"event {event['seq']} came after {len(self.seen)}"
            self.seen.append(event)


@dataclass
class LivingSite:
    """One site; `launcher` is replaced where a test starts it anew."""

    home: Path
    url: str
    token: str
    cookie: str
    launcher: int

    @classmethod
    def of(cls, own: OwnSite) -> LivingSite:
        return cls(own.home, own.url, own.token, signed_in_cookie(own.entry), own.pid)

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    @property
    def runs(self) -> bool:
        """Whether the launcher is there."""
        return _stat(self.launcher) is not None

    def ask(self, path: str, limit_s: float = 60.0) -> dict[str, Any]:
        """A page of the API, with patience while the web server is away."""
        return self._patiently(lambda: self.client.get(path), limit_s)

    def tell(self, path: str, body: dict[str, Any], limit_s: float = 60.0) -> dict[str, Any]:
        return self._patiently(lambda: self.client.post(path, body), limit_s)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Straight from the database."""
        address = f"file:{self.home}/db.sqlite3?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=20)) as connection:
            return connection.execute(query, values).fetchall()

    def part(self, name: str) -> Process:
        """The process that plays a part just now."""

        def find() -> Process | None:
            found = [
                process
                for process in below(self.launcher)
                if PARTS[name] in process.command and _is_child(process, self.launcher)
            ]
            return found[0] if len(found) == 1 else None

        found: Process = eventually(f"the {name} runs", find, 60)
        return found

    def judge(self) -> Process:
        """The judge that is at work."""
        worker = self.part("device worker").pid
        return next(p for p in below(worker) if "workers.device.judge" in p.command)

    def standing_runner(self, identity: str) -> Process | None:
        """The process in which a runner's code runs, once the judge has made it stand.

        Only root tells runners apart; others get any.
        """
        inside = below(self.part("device worker").pid)
        standing = [process for process in inside if process.stands]
        if is_root():
            standing = [process for process in standing if process.user == uid_of(identity)]
        return standing[-1] if standing else None

    def kill(self, *names: str) -> None:
        """`kill -9`, all at once; then all that came from them must go, and they must come back."""
        victims = [self.part(name) for name in names]
        doomed = [process for victim in victims for process in (victim, *below(victim.pid))]
        for victim in victims:
            victim.kill()
        for name, victim in zip(names, victims, strict=True):
            eventually(f"another {name} runs", lambda n=name, v=victim: self.part(n) != v, 60)
        eventually(
            "nothing is left of the killed",
            lambda: not [process for process in doomed if process.alive],
            20,
        )

    def job(self, kind: str, state: str = "running") -> str | None:
        """A job of a kind about a candidate, in a state."""
        found = self.rows(
            "SELECT j.id FROM evaluations_job j JOIN evaluations_evaluation e ON e.id = j.evaluation_id"
            " WHERE j.kind = ? AND j.state = ? AND e.snapshot_id IS NOT NULL",
            kind,
            state,
        )
        return found[0][0] if found else None

    def upload(self, title: str, files: dict[str, str]) -> str:
        """A problem that the judge has admitted."""
        problem = str(self.tell("problems", {"title": title, "files": files})["id"])
        self.wait_until_ready(problem)
        return problem

    def wait_until_ready(self, problem: str) -> float:
        """The judge admits a problem; returns when, on the monotonic clock."""
        eventually("the problem is checked", lambda: self._problem(problem)[0] != "checking", 120)
        now = time.monotonic()
        assert self._problem(problem)[0] == "ready", self._problem(problem)[1]
        return now

    def _problem(self, problem: str) -> tuple[str, str]:
        """State and reason."""
        told = self.ask(f"problems/{problem}")
        return str(told["state"]), str(told["reason"])

    def _patiently(self, ask: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
        end = time.monotonic() + limit_s
        while True:
            try:
                return ask()
            except LaunchError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)


def _is_child(process: Process, parent: int) -> bool:
    found = _stat(process.pid)
    return found is not None and found[0] == parent


class Session:
    """A `codegen` session, and the page that watches it."""

    def __init__(self, site: LivingSite, problem: str) -> None:
        self.site = site
        self.problem = problem
        self.ended = False
        self.earlier = {row[0] for row in site.rows("SELECT id FROM evaluations_evaluation")}
        started = site.tell("sessions", {"problem": problem, "author": "codegen"})
        self.id = str(started["id"])
        self.reader = Reader(site.url, site.cookie, self.id)
        self.thread = self.reader.start()

    @property
    def turns(self) -> int:
        """Finished turns."""
        return int(self._row("turn_count"))

    @property
    def state(self) -> str:
        return str(self._row("state"))

    def wait_for_turns(self, count: int) -> None:
        eventually(f"{count} turns are finished", lambda: self.turns >= count, TURN_S * count)

    def goes_on(self, behind: int) -> None:
        """The turn behind the last finished one is finished too, and has its verdict."""
        eventually(
            f"the session goes on behind turn {behind}",
            lambda: self.turns > behind or self.state in FINAL or not self.site.runs,
            2 * TURN_S,
        )
        assert self.site.runs
        assert self.state in ("running", "finished"), self._row("reason")
        assert self.turns > behind
        done = f"SELECT count(*) FROM studio_turn WHERE session_id = '{self._key}'"
        assert self.site.rows(done)[0][0] == self.turns
        eventually("the page has seen its verdict", lambda: self.verdicts(behind + 1), 20)

    def verdicts(self, turn: int) -> list[dict[str, Any]]:
        """What was told about a turn's candidates."""
        told = [event["body"] for event in self.reader.seen if event["kind"] == "evaluation"]
        return [body for body in told if body["turn"] == turn]

    def said(self) -> str:
        """What the site itself told this session."""
        told = [event["body"] for event in self.reader.seen if event["kind"] == "message"]
        return "\n".join(body["text"] for body in told if body["role"] == "system")

    def end(self) -> None:
        """Stop it if it still runs, and hold it to all that was promised."""
        if self.state not in FINAL:
            self.site.tell(f"sessions/{self.id}/stop", {})
        eventually("the session is over", lambda: self.state in FINAL, 60)
        self._check_events()
        self._check_verdicts()
        self.ended = True

    def _check_events(self) -> None:
        """Each durable event once and in order: in the log, over the API, and on a page that stayed open."""
        log = self.site.rows(
            f"SELECT seq, kind FROM events_logentry WHERE stream_id = '{self._key}' ORDER BY seq"
        )
        assert [seq for seq, _ in log] == list(range(1, len(log) + 1))
        assert log[-1][1] == "session.state"
        told: list[dict[str, Any]] = []
        while len(told) < len(log):
            page = self.site.ask(f"sessions/{self.id}/events?after={len(told)}")["events"]
            assert page
            told += page
        eventually(
            f"the page has seen {len(log)} events ({self.reader.wrong})",
            lambda: self.reader.wrong or len(self.reader.seen) >= len(log),
            30,
        )
        self.reader.ending.set()
        assert not self.reader.wrong
        assert self.reader.seen == told
        assert [(event["seq"], event["kind"]) for event in told] == log
        over = [e for e in told if e["kind"] == "session.state" and e["body"]["state"] in FINAL]
        assert len(over) == 1
        assert over[0]["body"]["state"] == "stopped" or over[0]["body"]["reason"]
        finished = [e["body"]["turn"] for e in told if e["kind"] == "turn.finished"]
        assert finished == list(range(1, self.turns + 1))

    def _check_verdicts(self) -> None:
        """Each question has one verdict, each verdict was told once, and no job is left."""
        told = [
            e["body"]["evaluation"].replace("-", "")
            for e in self.reader.seen
            if e["kind"] == "evaluation"
        ]
        assert len(told) == len(set(told))
        asked = {
            row[0]: row[1:]
            for row in self.site.rows(
                "SELECT id, state, status, summary FROM evaluations_evaluation"
            )
            if row[0] not in self.earlier
        }
        states = {asked[one][0] for one in told}
        assert states <= {"done"}, [asked[one] for one in told]
        # What was not told was taken back; the last question may have been answered as the stop came.
        heard = {*told, self._row("open_evaluation_id")}
        untold = [asked[one] for one in asked if one not in heard and self._is_about_kernels(one)]
        assert all("Withdrawn" in str(one[2]) for one in untold), untold
        jobs = self.site.rows(
            "SELECT e.id, j.kind, j.state FROM evaluations_job j"
            " JOIN evaluations_evaluation e ON e.id = j.evaluation_id WHERE NOT j.background"
        )
        mine = [job for job in jobs if job[0] in asked]
        assert {state for _, _, state in mine} <= {"answered", "given_up"}, mine

    def _is_about_kernels(self, evaluation: str) -> bool:
        query = "SELECT snapshot_id FROM evaluations_evaluation WHERE id = ?"
        return self.site.rows(query, evaluation)[0][0] is not None

    @property
    def _key(self) -> str:
        return self.id.replace("-", "")

    def _row(self, column: str) -> Any:
        query = f"SELECT {column} FROM studio_session WHERE id = ?"
        return self.site.rows(query, self._key)[0][0]


@contextlib.contextmanager
def session_on(site: LivingSite, problem: str) -> Iterator[Session]:
    """A session that is held to its promises at the end of the block."""
    session = Session(site, problem)
    try:
        yield session
        if not session.ended:
            session.end()
    finally:
        session.reader.ending.set()
        with contextlib.suppress(Exception):
            site.client.post(f"sessions/{session.id}/stop", {})
