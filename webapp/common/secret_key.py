"""The key that signs cookies and job tokens: given, or made once and kept in the run-time folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def kept_secret_key(home: Path) -> str:
    """Read `secret_key` in the run-time folder, making it (readable by us alone) at the first start."""
    path = home / "secret_key"
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        write_private_file(path, secrets.token_urlsafe(50))
    return path.read_text().strip()


def write_private_file(path: Path, text: str) -> bool:
    """Write a file of mode 0600 unless it exists; tells whether it was written. Safe for many starters."""
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        # A link fails when the name is taken, so two processes never see different keys.
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
