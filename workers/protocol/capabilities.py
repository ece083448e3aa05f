"""What a worker can do, announced with each heartbeat."""

from __future__ import annotations

from dataclasses import dataclass

from workers.protocol.problem import Target
from workers.protocol.verdict import DeviceInfo, Environment


@dataclass(frozen=True)
class Capabilities:
    """One worker process."""

    worker: str
    queues: tuple[str, ...]
    targets: tuple[Target, ...]
    environment: Environment
    device: DeviceInfo | None = None
    tools: tuple[str, ...] = ()
    """Optional programs that were found: `ncu`, `compute-sanitizer`, `objdump` …"""
    problem: str = ""
    """Why the worker takes no work, with the command that helps; empty when it is ready."""
    version: int = 1
