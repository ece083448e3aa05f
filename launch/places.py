"""Where things lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VENV = REPOSITORY / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
RUN_LOCK = REPOSITORY / "requirements" / "run.lock"
DEV_LOCK = REPOSITORY / "requirements" / "dev.lock"


def home_of(environ: Mapping[str, str], chosen: str = "") -> Path:
    """The run-time folder: the one chosen on the command line, else WARPSMITH_HOME, else `var`."""
    folder = chosen or environ.get("WARPSMITH_HOME") or str(REPOSITORY / "var")
    return Path(folder).expanduser().resolve()
