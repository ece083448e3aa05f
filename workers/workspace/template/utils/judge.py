"""Asks the judge that stands outside this workspace. Standard library only.

It judges the files as they are at that moment. Exit codes of all three commands:

    0  the candidate passed (after `compile`: it was built)
    1  another verdict about the candidate; the report says which and why
    2  wrong usage, or the request was refused; nothing was judged
    3  the judge could not be reached or failed by itself; nothing is said about the candidate
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
from pathlib import Path
from typing import Any

SOCKET = "/judge/socket"
SEAL = Path("/judge/token")
NOBODY = (
    "No judge listens here. Open the workspace with `python -m workers shell FOLDER` and use the "
    "command in that shell, or judge a folder with `python -m workers evaluate FOLDER`."
)


def main(command: str, what: str) -> int:
    """Ask for one command, print the report or the verdict as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=what, epilog="Exit codes: 0 passed, 1 not, 2 refused, 3 no judge."
    )
    parser.add_argument(
        "--json", action="store_true", help="print the verdict as JSON instead of the report"
    )
    options = parser.parse_args()
    try:
        answer = ask(command)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{NOBODY} ({error})\n")
        return 3
    if options.json and answer["verdict"] is not None:
        sys.stdout.write(json.dumps(answer["verdict"]) + "\n")
    else:
        stream = sys.stderr if answer["verdict"] is None else sys.stdout
        stream.write(answer["text"] + "\n")
    return int(answer["code"])


def ask(command: str) -> dict[str, Any]:
    """The judge's answer: `code`, `text` and `verdict` (none where nothing was judged)."""
    token = SEAL.read_text()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        connection.sendall(json.dumps({"token": token, "command": command}).encode() + b"\n")
        with connection.makefile("rb") as reader:
            line = reader.readline()
    if not line:
        raise ValueError("it hung up, so the session has ended or was stopped")
    answer = json.loads(line)
    return {name: answer[name] for name in ("code", "text", "verdict")}
