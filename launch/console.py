"""What a person at the terminal sees: one line per thing, and one sentence when something is wrong."""

from __future__ import annotations

import sys
import time


class LaunchError(Exception):
    """Something a person has to put right. The text is one clear sentence that says how."""


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print a line on the error stream."""
    print(text, file=sys.stderr, flush=True)


class Step:
    """A step of some length: a line that is rewritten on a terminal, two plain lines elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self.rewrites = sys.stdout.isatty()
        if self.rewrites:
            print(f"  {title} …", end="", flush=True)
        else:
            say(f"  {title} …")

    def progress(self, text: str) -> None:
        """Show how far it is; nothing is printed where a line cannot be rewritten."""
        if self.rewrites:
            print(f"\r\033[K  {self.title} … {text}", end="", flush=True)

    def note(self, text: str) -> None:
        """A line worth keeping while the step goes on."""
        if self.rewrites:
            print(f"\r\033[K    {text}\n  {self.title} …", end="", flush=True)
        else:
            say(f"    {text}")

    def done(self, text: str = "done") -> None:
        seconds = time.monotonic() - self.started
        start = "\r\033[K" if self.rewrites else ""
        say(f"{start}  {self.title}: {text} ({seconds:.1f} s)")

    def failed(self) -> None:
        if self.rewrites:
            print(flush=True)
