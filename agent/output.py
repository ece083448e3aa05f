"""What a command prints: as much of it as can be kept, and the part that is shown."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

KEPT_BYTES = 4 << 20
"""Kept of the head and of the tail, each."""
FLOOD_BYTES = 64 << 20
"""A command that prints more is ended: nobody will read it, and everybody pays for it."""
_PART = 256 << 10
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Output:
    """Collects from a descriptor that does not block."""

    source: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    @property
    def flooded(self) -> bool:
        """Whether more was printed than a command may print."""
        return self.total > FLOOD_BYTES

    def read(self) -> bool:
        """Take what is there, at most a part; False where there is nothing (more)."""
        try:
            part = os.read(self.source, _PART)
        except (BlockingIOError, OSError):
            return False
        self._add(part)
        return bool(part)

    def drain(self) -> None:
        """Take what is left; a job in the background that prints for ever does not hold us up."""
        for _ in range(16):
            if not self.read():
                return

    def _add(self, part: bytes) -> None:
        self.total += len(part)
        room = KEPT_BYTES - len(self.head)
        self.head += part[:room]
        self.tail += part[room:]
        if len(self.tail) > 2 * KEPT_BYTES:
            del self.tail[:-KEPT_BYTES]

    def kept(self) -> bytes:
        """The whole text, or its head and tail with a line between them that says what is missing."""
        tail = bytes(self.tail[-KEPT_BYTES:])
        lost = self.total - len(self.head) - len(tail)
        if lost <= 0:
            return bytes(self.head) + tail
        return bytes(self.head) + f"\n[... {lost:,} bytes were not kept ...]\n".encode() + tail


def printable(content: bytes) -> str:
    """Text for people: no colours, no bells, no bytes that a database refuses."""
    text = _COLOUR.sub("", content.decode(errors="replace")).replace("\r\n", "\n")
    return _UNPRINTABLE.sub("\ufffd", text)


def excerpt(content: bytes, most: int) -> str:
    """All of a short text, or the head and the tail of a long one, `most` bytes together."""
    if len(content) <= most:
        return printable(content)
    head, tail = content[: most * 2 // 3], content[-(most // 3) :]
    left_out = len(content) - len(head) - len(tail)
    return f"{printable(head)}\n[... {left_out:,} bytes left out ...]\n{printable(tail)}"
