"""`python -m agent FOLDER`: one whole session in the terminal.

FOLDER holds model.py and, if wanted, problem.toml. The best candidate is written back as model_new.py and
kernels/. Exit codes: 0 a faster or equal correct candidate was found, 1 none was, 2 wrong usage or
unreadable input, 130 stopped from the keyboard.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from agent.authors import AUTHOR_NAMES, make_author
from agent.config import Limits
from agent.errors import Cancelled
from agent.local import LocalEvaluator
from agent.loop import run
from agent.session import SessionInput, SessionResult, SessionState, TurnRecord
from agent.tools.report import ratio_text
from workers.artifacts import ArtifactStore, FolderStore, get_files
from workers.evaluation.config import config_from_environment, desk_settings
from workers.evaluation.folders import FolderError, read_folder
from workers.protocol.codec import Json, ProtocolError, from_json, to_json
from workers.protocol.events import EventKind
from workers.protocol.problem import ProblemSpec, parse_problem_toml
from workers.protocol.transcript import TranscriptEntry
from workers.workspace.layout import MODEL, MODEL_NEW, PROBLEM_FILES, PROBLEM_TOML


class Terminal:
    """Listener that prints, and remembers what the table at the end shows."""

    def __init__(self, transcript: Path | None) -> None:
        self.rows: list[dict[str, Json]] = []
        self._transcript = transcript
        self._began = time.monotonic()

    async def emit(self, kind: EventKind, body: dict[str, Json]) -> None:
        """Print one line for each event that people care about."""
        if kind is EventKind.TURN_STARTED:
            self._say(f"turn {body['turn']}")
        elif kind is EventKind.MESSAGE:
            self._say(f"  {body['text']}")
        elif kind is EventKind.TOOL_FINISHED and body["tool"] != "write":
            seconds = float(str(body["duration_ms"])) / 1000
            self._say(f"  {body['tool']}: {body['summary']} ({seconds:.1f} s)")
        elif kind is EventKind.EVALUATION:
            self.rows.append(body)
        elif kind is EventKind.BEST:
            self._say(f"  best so far: {body['speedup']:.2f}x against eager")

    async def delta(self, turn: int, text: str) -> None:
        """Whole messages are printed by `emit`."""

    async def turn_finished(self, turn: TurnRecord) -> None:
        """Append the turn to the transcript file, if one was asked for."""
        if self._transcript is not None:
            with self._transcript.open("ab") as file:
                for entry in turn.entries:
                    file.write(to_json(entry) + b"\n")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)


class Keyboard:
    """Control that stops at the next boundary after Ctrl-C; a second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.asked = False

    def stop(self) -> None:
        """The handler of the first Ctrl-C."""
        self.asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("Stopping at the next tool boundary; Ctrl-C again ends at once.", file=sys.stderr)

    async def boundary(self) -> None:
        """Go on, or raise `Cancelled`."""
        if self.asked:
            raise Cancelled("Stopped from the keyboard.")


async def play(options: argparse.Namespace) -> int:
    """Run the session that the command line asks for."""
    config = config_from_environment(os.environ)
    files = read_folder(options.folder)
    if MODEL not in files:
        raise FolderError(f"{options.folder} has no {MODEL}")
    problem = {path: files[path] for path in PROBLEM_FILES if path in files}
    spec = parse_problem_toml(problem.get(PROBLEM_TOML, b"").decode())
    recording = _read_transcript(options.replay) if options.replay else ()
    author = make_author(options.author, recording)
    store = FolderStore(config.artifacts)
    terminal, keyboard = Terminal(options.transcript), Keyboard()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, keyboard.stop)
    evaluator = LocalEvaluator(problem, spec, store, config)
    try:
        session = SessionInput(problem, spec.target, _limits(options))
        result = await run(session, author, evaluator, terminal, keyboard, desk_settings(config))
    finally:
        evaluator.close()
    return finish(result, terminal, store, options.folder, spec)


def finish(
    result: SessionResult, terminal: Terminal, store: ArtifactStore, folder: Path, spec: ProblemSpec
) -> int:
    """Print the table, write the best files back, and choose the exit code."""
    print(f"\n{'turn':>4}  {'verdict':14} {'speed-up':>9}  {'95 % interval':16} stage")
    for row in terminal.rows:
        speed, interval = "-", ""
        if row["speedup"] is not None:
            speed, interval = f"{row['speedup']:.2f}x", f"[{row['low']:.2f}, {row['high']:.2f}]"
        print(f"{row['turn']!s:>4}  {row['status']!s:14} {speed:>9}  {interval:16} {row['stage']}")
    print(f"\n{spec.title or folder.name}: {result.state}. {result.reason}")
    if result.best is None:
        return 130 if result.state is SessionState.STOPPED else 1
    write_back(folder, get_files(store, result.best.snapshot))
    print(
        f"Best: turn {result.best.turn}, {ratio_text(result.best.speedup)} against eager; "
        f"written to {folder / MODEL_NEW} and {folder / 'kernels'}."
    )
    return 130 if result.state is SessionState.STOPPED else 0


def write_back(folder: Path, files: dict[str, bytes]) -> None:
    """Put the author's files into the folder; files of earlier runs that are no longer part go away."""
    for name in read_folder(folder):
        if name not in PROBLEM_FILES and name not in files:
            (folder / name).unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(turns=options.turns, wall_seconds=options.seconds)


def _read_transcript(path: Path) -> tuple[TranscriptEntry, ...]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}") from error
    return tuple(from_json(TranscriptEntry, line) for line in lines if line.strip())


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m agent", description="Optimise the model in a folder, in this terminal."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--author", choices=AUTHOR_NAMES, default="codegen")
    parser.add_argument("--replay", type=Path, help="transcript that the author `scripted` repeats")
    parser.add_argument(
        "--transcript", type=Path, help="append the session's transcript to this file"
    )
    parser.add_argument("--turns", type=int, default=Limits().turns)
    parser.add_argument("--seconds", type=float, default=Limits().wall_seconds)
    options = parser.parse_args(arguments)
    try:
        return asyncio.run(play(options))
    except (FolderError, ProtocolError, ValueError) as error:
        print(f"agent: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
