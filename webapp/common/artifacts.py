"""The artifact store of this site."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from workers.artifacts import ArtifactStore, FolderStore
from workers.presence import PRESENCE_FOLDER


def artifact_store() -> ArtifactStore:
    """The store that the settings name; cheap to make, holds no connection."""
    return FolderStore(settings.ARTIFACTS)


def alive_folder() -> Path:
    """Where workers and session hosts show that they are there."""
    folder: Path = settings.ARTIFACTS / PRESENCE_FOLDER
    return folder
