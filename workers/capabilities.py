"""What device workers offer, left in the artifact store when they start.

It is told per host and replaced by the next start, never taken back: a host that is gone may still be
named. So it may rule out what no worker ever offered, and promises nothing.
"""

from __future__ import annotations

from workers.artifacts import ArtifactMissing, ArtifactStore
from workers.protocol.capabilities import Capabilities
from workers.protocol.codec import ProtocolError, from_json, to_json
from workers.protocol.files import digest_of
from workers.protocol.problem import Target

_PREFIX = "worker-"


def announce(store: ArtifactStore, capabilities: Capabilities) -> None:
    """Leave what a worker offers, in place of what it left before."""
    name = digest_of(capabilities.worker.encode())[:16]
    store.move_ref(f"{_PREFIX}{name}", store.put(to_json(capabilities)))


def announced(store: ArtifactStore, target: Target) -> list[Capabilities]:
    """What the workers for a target have said; what cannot be read is passed over."""
    found = []
    for key in store.refs(_PREFIX):
        try:
            found.append(from_json(Capabilities, store.get(store.get_ref(key) or "")))
        except (ArtifactMissing, ProtocolError):
            continue  # another version of a worker wrote it, or the store was swept
    return [one for one in found if target in one.targets]
