"""Programs that nobody trusts, started in a small world of their own. Standard library only."""

from workers.sandbox.choice import Choice, choose
from workers.sandbox.interpreters import python_profile_paths
from workers.sandbox.process import Ended, SandboxedProcess
from workers.sandbox.profiles import Limits, Profile, SandboxError, hand_over
from workers.sandbox.spawn import spawn

__all__ = [
    "Choice",
    "Ended",
    "Limits",
    "Profile",
    "SandboxError",
    "SandboxedProcess",
    "choose",
    "hand_over",
    "python_profile_paths",
    "spawn",
]
