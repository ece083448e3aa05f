"""Where a worker keeps things and how strictly it runs. Read from the environment at the doors only."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.workspace.desk import DeskSettings

SANDBOX_CHOICES = ("auto", "bubblewrap", "namespaces", "none")


@dataclass(frozen=True)
class WorkerConfig:
    """Settings of builder and judge."""

    artifacts: Path
    """Root of the artifact store."""
    cache: Path
    """Compiled objects and prepared torch folders; may be deleted at any time."""
    python: Path
    """Interpreter that can import torch; judge and runners are started with it."""
    sandbox: str = "auto"
    """One of SANDBOX_CHOICES; `none` runs user code unprotected and every verdict says so."""
    build_jobs: int = 2
    """Compilers that run at once."""

    def __post_init__(self) -> None:
        if self.sandbox not in SANDBOX_CHOICES:
            raise ValueError(
                f"WARPSMITH_SANDBOX is {self.sandbox!r}; use one of {', '.join(SANDBOX_CHOICES)}"
            )


def config_from_environment(environ: Mapping[str, str]) -> WorkerConfig:
    """Read WARPSMITH_HOME, WARPSMITH_ARTIFACTS, WARPSMITH_CACHE, WARPSMITH_SANDBOX, WARPSMITH_UNSANDBOXED."""
    home = Path(environ.get("WARPSMITH_HOME") or _default_home())
    unsandboxed = environ.get("WARPSMITH_UNSANDBOXED") == "1"
    return WorkerConfig(
        artifacts=Path(environ.get("WARPSMITH_ARTIFACTS") or home / "artifacts"),
        cache=Path(environ.get("WARPSMITH_CACHE") or home / "cache"),
        python=Path(environ.get("WARPSMITH_PYTHON") or sys.executable),
        sandbox="none" if unsandboxed else environ.get("WARPSMITH_SANDBOX", "auto"),
        build_jobs=min(2, os.cpu_count() or 1),
    )


def desk_settings(config: WorkerConfig) -> DeskSettings:
    """How shells are opened where builder and judge run like this."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return DeskSettings(
        python=config.python,
        sandbox=config.sandbox,
        scratch=config.cache / "scratch",
        memory_bytes=max(2 << 30, min(half, 8 << 30)),
    )


def _default_home() -> Path:
    return Path(__file__).resolve().parents[2] / "var"
