"""`python -m workers evaluate|inspect|baseline|repeat|shell|doctor`: the judge on the command line.

Exit codes: 0 passed, 1 any other verdict about the candidate, 2 wrong usage or unreadable input,
3 infrastructure (nothing is said about the candidate). `shell` ends as its last command did.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from workers.artifacts import FolderStore, put_files
from workers.evaluation.config import WorkerConfig, config_from_environment
from workers.evaluation.crew import forked_kind
from workers.evaluation.device import device_info, installed_torch
from workers.evaluation.folders import FolderError, read_folder
from workers.evaluation.repeat import repeat
from workers.evaluation.report import as_text
from workers.evaluation.run import evaluate, put_workspace
from workers.evaluation.workbench import Workbench
from workers.protocol.codec import ProtocolError, to_json
from workers.protocol.problem import Stage, Target, Tier, parse_problem_toml
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Evaluation, Status
from workers.sandbox import choose
from workers.workspace.desk import DeskError

STAGES = {
    "compile": (Stage.BUILD,),
    "verify": (Stage.BUILD, Stage.VERIFY),
    "evaluate": (Stage.BUILD, Stage.VERIFY, Stage.TIME),
    "inspect": (Stage.INSPECT,),
    "baseline": (Stage.BASELINE,),
    "repeat": (Stage.BUILD, Stage.VERIFY, Stage.TIME),
}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        config = config_from_environment(os.environ)
        if options.command == "doctor":
            return doctor(config)
        if options.command == "shell":
            return open_shell(options, config)
        if options.command == "repeat":
            return judge_often(options, config)
        evaluation = judge_folder(options, config)
    except (FolderError, ProtocolError, ValueError) as error:
        print(f"workers: {error}", file=sys.stderr)
        return 2
    except DeskError as error:
        print(f"workers: {error}", file=sys.stderr)
        return 3
    print(to_json(evaluation).decode() if options.json else as_text(evaluation))
    if evaluation.status is Status.INFRASTRUCTURE:
        return 3
    return 0 if evaluation.status is Status.PASSED else 1


def judge_folder(options: argparse.Namespace, config: WorkerConfig) -> Evaluation:
    """Evaluate a workspace folder; the reference is its own model.py unless --problem names another."""
    store = FolderStore(config.artifacts)
    return evaluate(request_of(options, store), store, config)


def request_of(options: argparse.Namespace, store: FolderStore) -> EvaluateRequest:
    """What the command line asks for, with the folder's files in the store."""
    files = read_folder(options.folder)
    if options.problem is not None:
        reference = read_folder(options.problem)
        files = {
            **{p: c for p, c in files.items() if p not in ("model.py", "problem.toml")},
            **{p: c for p, c in reference.items() if p in ("model.py", "problem.toml")},
        }
    if "model.py" not in files:
        raise FolderError(
            f"{options.folder} has no model.py; name the problem with --problem FOLDER"
        )
    spec = parse_problem_toml(files.get("problem.toml", b"").decode())
    stages = STAGES[options.command]
    alone = options.command in ("inspect", "baseline")
    if not alone and "model_new.py" not in files:
        raise FolderError(f"{options.folder} has no model_new.py, so there is nothing to evaluate")
    if alone:
        problem = put_files(
            store, {p: c for p, c in files.items() if p in ("model.py", "problem.toml")}
        )
        snapshot = ""
    else:
        problem, snapshot = put_workspace(store, files)
    return EvaluateRequest(
        problem=problem,
        snapshot=snapshot,
        stages=stages,
        target=Target(options.target) if options.target else spec.target,
        tier=Tier(options.tier),
        precision=spec.precision,
    )


def judge_often(options: argparse.Namespace, config: WorkerConfig) -> int:
    """Judge the same folder again and again and say how well the speed-up repeats."""
    store = FolderStore(config.artifacts)

    def tell(evaluation: Evaluation) -> None:
        if not options.json:
            print(evaluation.summary, flush=True)

    found = repeat(request_of(options, store), store, config, options.times, tell)
    if options.json:
        print(to_json(found).decode())
    else:
        print(
            f"{len(found.speedups)} of {found.judged} measured, coefficient of variation of the speed-up "
            f"{found.variation:.1%}; {found.covered} intervals hold the median; "
            f"{found.kernel_ms:.2f} ms a call, {found.seconds:.1f} s a verdict"
        )
    return 0 if found.speedups else 1


def open_shell(options: argparse.Namespace, config: WorkerConfig) -> int:
    """A shell in the folder, opened as a workspace; ends on SIGTERM as well, after the files are safe."""
    bench = Workbench(options.folder, config, terminal_kind=os.environ.get("TERM", "dumb"))

    async def attend() -> int:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await bench.attend(options.run)

    try:
        return asyncio.run(attend())
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 130


def doctor(config: WorkerConfig) -> int:
    """Say what this machine offers the judge and what is missing."""
    choice = choose(config.sandbox)
    forked = forked_kind(config.sandbox, choice.kind) if choice.kind else ""
    info = device_info(Target.CPU, 1)
    lines = [
        f"sandbox   {choice.kind or 'none works'}",
        *([f"runners   forks in {forked}"] if forked else []),
        f"torch     {installed_torch(config.python)} ({config.python})",
        f"device    {info.name}, {info.cores} cores, {info.l2_bytes // 1024} KiB L2",
        f"artifacts {config.artifacts}",
    ]
    print("\n".join(lines))
    if choice.problem:
        print(choice.problem, file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers", description="Build, verify and time kernels in a sandbox."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "evaluate": "build, verify and time a workspace folder",
        "verify": "build and verify",
        "compile": "build only",
        "inspect": "look at the problem alone: operators, work, eager time",
        "baseline": "torch.compile beside eager",
        "repeat": "judge the same folder several times: does the speed-up repeat?",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("folder", type=Path, metavar="FOLDER")
        command.add_argument("--problem", type=Path, help="folder whose model.py is the reference")
        command.add_argument("--target", choices=[t.value for t in Target])
        command.add_argument("--tier", choices=[t.value for t in Tier], default=Tier.QUICK.value)
        command.add_argument("--json", action="store_true", help="print the verdict as JSON")
    commands.choices["repeat"].add_argument("--times", type=int, default=20, metavar="N")
    shell = commands.add_parser(
        "shell", help="open a folder as a workspace: a sandboxed shell with the judge's commands"
    )
    shell.add_argument("folder", type=Path, metavar="FOLDER")
    shell.add_argument(
        "--run",
        default="",
        metavar="COMMAND",
        help="run this command in it instead; without it and without a terminal, commands are read from the input",
    )
    commands.add_parser("doctor", help="say what this machine offers and what is missing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
