"""The seam to whoever may pause or stop a session."""

from __future__ import annotations

from typing import Protocol


class Control(Protocol):
    """Asked at each boundary: before every reply of the author and before every tool call."""

    async def boundary(self) -> None:
        """Return to go on; wait while paused; raise `agent.errors.Cancelled` to stop."""
        ...


class Uncontrolled:
    """Never pauses and never stops."""

    async def boundary(self) -> None:
        """Go on."""
