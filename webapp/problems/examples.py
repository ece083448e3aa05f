"""The example problems that come with Warpsmith, for filling the upload form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from workers.protocol.codec import ProtocolError
from workers.protocol.problem import parse_problem_toml
from workers.workspace.layout import MODEL, PROBLEM_TOML

MAX_EXAMPLES = 12


@dataclass(frozen=True)
class Example:
    """A folder of `examples/`."""

    name: str
    title: str
    model: str
    spec: str


def examples(root: Path | None = None) -> list[Example]:
    """All examples by name; folders without a `model.py` are passed over."""
    folder = root or settings.BASE_DIR / "examples"
    models = sorted(folder.glob(f"*/{MODEL}"))[:MAX_EXAMPLES]
    return [_example(model.parent) for model in models]


def _example(folder: Path) -> Example:
    spec_file = folder / PROBLEM_TOML
    spec = spec_file.read_text() if spec_file.exists() else ""
    try:
        title = parse_problem_toml(spec).title
    except ProtocolError:
        title = ""
    words = folder.name.replace("_", " ").replace("-", " ").capitalize()
    return Example(folder.name, title or words, (folder / MODEL).read_text(), spec)
