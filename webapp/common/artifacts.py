"""The artifact store of this site."""

from __future__ import annotations

from django.conf import settings

from workers.artifacts import ArtifactStore, FolderStore


def artifact_store() -> ArtifactStore:
    """The store that the settings name; cheap to make, holds no connection."""
    return FolderStore(settings.ARTIFACTS)
