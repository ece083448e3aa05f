"""Every promise is tried with each back end that this machine has."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from workers.sandbox import Ended, Limits, Profile, choose, spawn

MIB = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What a sandboxed shell said and how it ended."""

    text: str
    ended: Ended


Shell = Callable[..., Answer]


@pytest.fixture(params=["bubblewrap", "namespaces"])
def kind(request: pytest.FixtureRequest) -> str:
    choice = choose(request.param)
    if choice.problem:
        pytest.skip(choice.problem)
    return choice.kind


@pytest.fixture
def profile() -> Profile:
    limits = Limits(memory_bytes=256 * MIB, processes=32, cpu_seconds=10, file_bytes=32 * MIB)
    return Profile("test", "candidate", tmpfs={"/tmp": 8 * MIB}, limits=limits)


@pytest.fixture
def shell(kind: str, profile: Profile) -> Shell:
    def run(
        script: str, *, profile: Profile = profile, timeout_s: float = 20.0, **more: object
    ) -> Answer:
        argv = ["/bin/bash", "-c", script]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with spawn(profile, argv, kind=kind, **streams, **more) as process:  # type: ignore[arg-type]
            ended = process.wait(timeout_s)
            assert process.stdout is not None
            return Answer(process.stdout.read().decode(errors="replace"), ended)

    return run
