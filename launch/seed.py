"""The examples, uploaded once into a new site, through the same API that everybody uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from launch import stack
from launch.client import Client
from launch.console import LaunchError
from launch.places import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


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


def seed(home: Path, url: str, environ: Mapping[str, str], report: Callable[[str], None]) -> None:
    """Upload the examples that this site has never been given; one that was deleted stays away."""
    stamp = home / "seeded.json"
    known = json.loads(stamp.read_text()) if stamp.exists() else []
    missing = [name for name in example_names() if name not in known]
    if not missing:
        return
    try:
        entry = stack.manage(home, environ, "bootstrap", "--token", "--token-days", "1")
        client = Client(url, json.loads(entry.strip().splitlines()[-1])["token"])
        for name in missing:
            client.post("problems", {"files": example_files(name)})
            known.append(name)
    except LaunchError as error:
        report(f"The examples could not be uploaded: {error}")
    stamp.write_text(json.dumps(known))
    report(f"{len(missing)} examples were uploaded; the judge looks at them now.")
