"""`python -m workers shell FOLDER`: a person's folder, opened as a workspace with a shell and a judge.

For people, and for agents of others that are pointed at it. The shell runs in a sandbox on a copy of the folder in
memory. Every second, before each judgement and at the end the author's files (model_new.py, kernels/ and the
bindings) are carried over in both directions, so that an editor outside and the shell inside see the same. Where both
changed one file within that second, the shell wins. Nothing else of the folder is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from pathlib import Path

from workers.artifacts import FolderStore, put_files
from workers.evaluation.config import WorkerConfig, desk_settings
from workers.evaluation.device import DeviceSupervisor
from workers.evaluation.folders import FolderError, read_folder
from workers.evaluation.report import as_text
from workers.evaluation.run import evaluate
from workers.protocol.problem import ProblemSpec, Stage, parse_problem_toml
from workers.protocol.requests import EvaluateRequest
from workers.workspace.counter import REFUSED, Answer, Counter, answer_of
from workers.workspace.desk import Desk, Person
from workers.workspace.layout import MODEL, PROBLEM_FILES, PROBLEM_TOML, snapshot_files
from workers.workspace.mirror import Mirror, write_below
from workers.workspace.pybind import EXTENSION, is_hand_written

_LOOK_S = 1.0
_PART = 1 << 16
_OWN_STREAMS = (0, 1, 2)


class Workbench:
    """One folder and its judge."""

    def __init__(self, folder: Path, config: WorkerConfig, *, terminal_kind: str = "dumb") -> None:
        """Raises `FolderError` or `ProtocolError` where the folder holds no problem."""
        files = read_folder(folder)
        if MODEL not in files:
            raise FolderError(f"{folder} has no {MODEL}, so there is nothing to work on")
        self._folder = folder
        self._config = config
        self._terminal_kind = terminal_kind
        self._problem = {path: files[path] for path in PROBLEM_FILES if path in files}
        self._spec: ProblemSpec = parse_problem_toml(files.get(PROBLEM_TOML, b"").decode())
        self._files = snapshot_files(files)
        self._store = FolderStore(config.artifacts)
        self._supervisor = DeviceSupervisor(config, self._store)
        self._one_by_one = asyncio.Lock()

    async def attend(self, command: str = "") -> int:
        """Open the shell, or run one command, and return its exit code; raises `DeskError`."""
        terminal = not command and sys.stdin.isatty() and sys.stdout.isatty()
        outer, inner = pty.openpty() if terminal else (-1, -1)
        streams = (inner, inner, inner) if terminal else _OWN_STREAMS
        person = Person(terminal, command, self._terminal_kind)
        try:
            desk = await asyncio.to_thread(
                Desk, desk_settings(self._config), self._problem, person, streams
            )
        finally:
            if terminal:
                os.close(inner)
        mirror = Mirror(desk.folder, desk.owner)
        mirror.put(self._files)
        counter = Counter(desk.token, lambda stages: self._judge(mirror, stages))
        assert desk.listener is not None
        counter.open(desk.listener)
        desk.control.send(b"g")
        looking = asyncio.create_task(self._look(mirror))
        try:
            with _joined(outer) if terminal else contextlib.nullcontext():
                return await _end_of(desk)
        finally:
            looking.cancel()
            await counter.close()
            self._settle(mirror)
            mirror.close()
            await asyncio.to_thread(desk.close)
            await asyncio.to_thread(self._supervisor.close)

    async def _look(self, mirror: Mirror) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._settle(mirror)

    async def _judge(self, mirror: Mirror, stages: tuple[Stage, ...]) -> Answer:
        async with self._one_by_one:
            problems = self._settle(mirror)
            if problems:
                return Answer(REFUSED, "Nothing was judged: " + "; ".join(problems))
            request = EvaluateRequest(
                problem=put_files(self._store, self._problem),
                snapshot=put_files(self._store, self._files),
                stages=stages,
                target=self._spec.target,
                precision=self._spec.precision,
            )
            verdict = await asyncio.to_thread(
                evaluate, request, self._store, self._config, self._supervisor
            )
            library = verdict.artifacts.get("library")
            if library and is_hand_written(self._files):
                mirror.write(EXTENSION, self._store.get(library))
        return answer_of(verdict, as_text(verdict))

    def _settle(self, mirror: Mirror) -> tuple[str, ...]:
        """Carry changes in both directions; sentences on what could not be."""
        problems: tuple[str, ...] = ()
        try:
            outside = snapshot_files(read_folder(self._folder))
        except (FolderError, OSError) as error:
            outside, problems = dict(self._files), (str(error),)
        taken = mirror.take({**outside})
        try:
            self._write_back(outside, taken.files)
        except OSError as error:
            problems = (*problems, f"{self._folder} cannot be written: {error.strerror}")
        self._files = taken.files
        return (*problems, *taken.refused, *mirror.put(taken.files))

    def _write_back(self, outside: Mapping[str, bytes], files: Mapping[str, bytes]) -> None:
        if outside == files:
            return
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path, content in files.items():
                if outside.get(path) != content:
                    write_below(handle, path, content, None)
        finally:
            os.close(handle)
        for path in outside:
            if path not in files:
                (self._folder / path).unlink(missing_ok=True)


async def _end_of(desk: Desk) -> int:
    """Wait until the shell ends; its exit code."""
    while (ended := desk.process.poll()) is None:
        await asyncio.sleep(0.02)
    return ended.code if ended.code is not None else 128 + (ended.signal or 0)


@contextlib.contextmanager
def _joined(outer: int) -> Iterator[None]:
    """Our terminal and the shell's, joined: keys go in, text comes out, sizes are equal."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(0)

    def size() -> None:
        fcntl.ioctl(outer, termios.TIOCSWINSZ, fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8))

    def out() -> None:
        try:
            _write(1, os.read(outer, _PART))
        except OSError:  # the shell has ended
            loop.remove_reader(outer)

    size()
    tty.setraw(0)
    loop.add_signal_handler(signal.SIGWINCH, size)
    loop.add_reader(0, lambda: _write(outer, os.read(0, _PART)))
    loop.add_reader(outer, out)
    try:
        yield
    finally:
        loop.remove_reader(0)
        loop.remove_reader(outer)
        loop.remove_signal_handler(signal.SIGWINCH)
        _drain(outer)
        os.close(outer)
        termios.tcsetattr(0, termios.TCSANOW, before)  # nobody may be reading any more


def _write(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


def _drain(outer: int) -> None:
    """Show the last words, which may have come after the end was seen."""
    os.set_blocking(outer, False)
    with contextlib.suppress(OSError):
        while part := os.read(outer, _PART):
            _write(1, part)
