"""The examples, uploaded once into a new site, through the same API that everybody uses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from launch import stack
from launch.client import Client
from launch.console import LaunchError
from launch.places import REPOSITORY

EXAMPLES = REPOSITORY / "examples"
CHECK_S = 60.0
"""How long the next example waits for the check of the last one."""


def example_names() -> list[str]:
    """Folders of examples/ that hold a problem."""
    return sorted(path.parent.name for path in EXAMPLES.glob("*/model.py"))


def example_files(name: str) -> dict[str, str]:
    """The files of an example, as the API takes them."""
    folder = EXAMPLES / name
    if not (folder / "model.py").is_file():
        raise LaunchError(
            f"There is no example {name!r}; choose one of {', '.join(example_names())}."
        )
    names = [file for file in ("model.py", "problem.toml") if (folder / file).is_file()]
    return {file: (folder / file).read_text() for file in names}


def recordings() -> list[Path]:
    """Sessions that really ran, each as one file."""
    return sorted(EXAMPLES.glob("recorded/*.zip"))


def seed(
    home: Path, url: str, environ: Mapping[str, str], report: Callable[[str], None]
) -> Iterator[None]:
    """Give the site the examples that it has never been given; what was deleted stays away.

    One after the other, each when the last one is checked, so that what a person uploads meanwhile
    waits for one of them at most. It yields while it waits, so that the caller can do other work.
    """
    stamp = home / "seeded.json"
    known: list[str] = json.loads(stamp.read_text()) if stamp.exists() else []
    try:
        entry = _entry(home, environ) if _missing(known) else {}
        for path in recordings():
            if path.name not in known:
                stack.manage(home, environ, "import_session", str(path), "--team", entry["team"])
                known.append(path.name)
                report(f"A finished session was put on the site: {path.stem}, as it once ran.")
        for name in example_names():
            if name not in known:
                client = Client(url, entry["token"])
                problem = client.post("problems", {"files": example_files(name)})["id"]
                known.append(name)
                report(f"Uploaded examples/{name}; the judge looks at it now.")
                end = time.monotonic() + CHECK_S
                while _checking(client, problem) and time.monotonic() < end:
                    yield
    except LaunchError as error:
        report(f"Not all examples could be put on the site: {error}")
    finally:
        stamp.write_text(json.dumps(known))


def _checking(client: Client, problem: str) -> bool:
    return bool(client.get(f"problems/{problem}")["state"] == "checking")


def _missing(known: list[str]) -> bool:
    wanted = {*example_names(), *(path.name for path in recordings())}
    return bool(wanted - set(known))


def _entry(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    printed = stack.manage(home, environ, "bootstrap", "--token", "--token-days", "1")
    data: dict[str, str] = json.loads(printed.strip().splitlines()[-1])
    return data
