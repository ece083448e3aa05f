"""The main job from end to end, and one verdict: the site and the command line agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from launch.own_site import OwnSite, own_site
from workers.artifacts import FolderStore, get_files
from workers.protocol.codec import from_data, from_json
from workers.protocol.verdict import Evaluation, Status

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = "bias_gelu_scale"


@dataclass(frozen=True)
class Done:
    """What the demo left on its site."""

    site: OwnSite
    said: str
    best: Evaluation


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """`demo` as a person runs it, on a site of its own."""
    home = tmp_path_factory.mktemp("site")
    with own_site(home, os.environ) as site:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "launch", "demo", "--example", EXAMPLE),
                *("--url", site.url, "--token", site.token),
            ],
            cwd=REPOSITORY,
            env={**os.environ, "WARPSMITH_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=1500,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        session = site.client.get("sessions")["results"][0]
        data = site.client.get(f"evaluations/{session['best']['evaluation']}")
        yield Done(site, result.stdout, from_data(Evaluation, data["verdict"]))


def test_the_demo_tells_every_stage(done: Done):
    for stage in (
        f"Uploading examples/{EXAMPLE}",
        "accepted: the judge ran it",
        "turn 1",
        "verdict passed",
        "session finished",
        "against eager",
        "against torch.compile",
        "first verdict",
        "Downloaded",
        "Built it and called",
    ):
        assert stage in done.said


def test_the_command_line_says_what_the_site_said(done: Done, tmp_path: Path):
    store = FolderStore(done.site.home / "artifacts")
    for digest in (done.best.problem, done.best.snapshot):
        for path, content in get_files(store, digest).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content)
    result = subprocess.run(
        [sys.executable, "-m", "workers", "evaluate", str(tmp_path), "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "WARPSMITH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    here = from_json(Evaluation, result.stdout)
    assert done.best.status is Status.PASSED
    # A busy machine may leave the second one without a time; it may not change what is right.
    assert here.status in (Status.PASSED, Status.UNMEASURED)
    assert (here.problem, here.snapshot) == (done.best.problem, done.best.snapshot)
    assert here.correctness is not None
    assert all(case.passed for case in here.correctness.cases)
    assert result.returncode == (0 if here.status is Status.PASSED else 1)


def test_a_wrong_kernel_is_wrong_for_both(done: Done, tmp_path: Path):
    """The same files with a changed constant: the command line sees what the site would."""
    store = FolderStore(done.site.home / "artifacts")
    files = {**get_files(store, done.best.problem), **get_files(store, done.best.snapshot)}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if path == "model_new.py":
            content = content.replace(b"return ", b"return 1.5 * ")
        (tmp_path / path).write_bytes(content)
    result = subprocess.run(
        [sys.executable, "-m", "workers", "evaluate", str(tmp_path), "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "WARPSMITH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    verdict = json.loads(result.stdout)
    assert verdict["status"] in ("incorrect", "rejected")
    assert result.returncode == 1
