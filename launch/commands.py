"""The commands, once `.venv` is there. `python3 -m launch` comes here by itself."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType

from launch import bench, checks, demo, up
from launch.console import LaunchError, complain
from launch.places import home_of

Command = Callable[[argparse.Namespace, Mapping[str, str]], int]


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run one command; returns its exit code."""
    options = _parser().parse_args(arguments)
    command: Command = options.run
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return command(options, environ)
    except LaunchError as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        complain("Stopped.")
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a command as Ctrl-C does, with everything that it started."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m launch", description="Warpsmith's commands.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("setup", _nothing, "make .venv and install what running needs")
    add("setup-dev", _nothing, "the same with what checks and tests need")
    command = add("up", _up, "run the site and its workers until Ctrl-C")
    command.add_argument("--port", type=_port, default=8000, help="0 takes a free one")
    command.add_argument(
        "--home", default="", help="run-time folder; else WARPSMITH_HOME, else var"
    )
    command.add_argument("--json", action="store_true", help="say when ready as one line of JSON")
    command.add_argument("--no-examples", action="store_true", help="upload no examples")
    command = add("demo", _demo, "optimise an example through the REST API and use the result")
    command.add_argument("--example", default="", help="folder name in examples/")
    command.add_argument("--url", default="", help="a running site; else one is found or started")
    command.add_argument("--token", default="", help="an API token of that site")
    command = add("test", _test, "run the tests")
    command.add_argument("arguments", nargs="*", help="passed on to pytest")
    add("check", _check, "lint, types, layers, migrations, schema, house tests")
    add("bench", _bench, "measure, and write docs/benchmarks.md")
    return parser


def _port(text: str) -> int:
    """A port number; the error says which ones there are."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text[:20]} is no port; ports go up to 65535, so try: make up PORT=8001"
        )
    return int(text)


def _nothing(_options: argparse.Namespace, _environ: Mapping[str, str]) -> int:
    return 0


def _up(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    home = home_of(environ, options.home)
    examples = not options.no_examples
    return up.run(home, options.port, environ, as_json=options.json, examples=examples)


def _demo(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return demo.run(environ, example=options.example, url=options.url, token=options.token)


def _test(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return checks.test(options.arguments, environ)


def _check(_options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return checks.check(environ)


def _bench(_options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    return bench.run(environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
