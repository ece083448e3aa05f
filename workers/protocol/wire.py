"""Fixed-layout frames between supervisor, judge and runners.

A frame is a header of 16 bytes (`kind` u32, `index` u32, `length` u64, little endian) and `length`
bytes. JSON bodies are data only; nothing is ever unpickled. A reader states the largest body that it
accepts, so that an untrusted peer cannot make it allocate without end.
"""

from __future__ import annotations

import enum
import json
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

HEADER = struct.Struct("<IIQ")
MAX_JSON = 32 << 20
MAX_FILE = 256 << 20


class Kind(enum.IntEnum):
    """What a frame means. Commands go down to a runner, the others come back."""

    HELLO = 1
    """Runner → judge, carries the sender's credentials from the kernel."""
    FILE = 2
    """A file for the peer: body is path length u16, path, content."""
    COMMAND = 3
    """JSON {"do": …}; answered by REPLY or FAILED."""
    REPLY = 4
    FAILED = 5
    """JSON {"kind", "message", "trace"}: user code raised."""
    GO = 6
    """Call the model on input set `index`; answered by DONE or FAILED."""
    NOOP = 7
    """As GO, but the runner's own empty function: what a call costs by itself."""
    DONE = 8
    """Body: output descriptors, see OUTPUT."""
    RELEASE = 9
    """Forget the outputs of the block; no answer."""
    RESULT = 10
    """Judge → supervisor: the verdict as JSON."""


# One output tensor: address, bytes of storage reached, element type code, ndim, 8 sizes, 8 strides.
OUTPUT = struct.Struct("<QQII8q8q")
MAX_NDIM = 8
MAX_OUTPUTS = 64

ELEMENT_TYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


class PeerGone(ConnectionError):
    """The other end closed its socket: its process ended."""


class PeerSilent(TimeoutError):
    """The other end did not answer in time."""


class BadFrame(ValueError):
    """The other end sent something that is not a frame it may send now."""


@dataclass(frozen=True)
class Frame:
    kind: Kind
    index: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; raises `BadFrame` for anything else."""
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise BadFrame("not JSON") from error
        if not isinstance(data, dict):
            raise BadFrame("not a JSON object")
        return data


class Channel:
    """Frames over a connected Unix stream socket, with a time limit on every wait."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, kind: Kind, index: int = 0, body: bytes = b"") -> None:
        try:
            self.sock.sendall(HEADER.pack(kind, index, len(body)) + body)
        except TimeoutError as error:
            raise PeerSilent("the peer does not read") from error
        except OSError as error:
            raise PeerGone(str(error)) from error

    def send_json(self, kind: Kind, data: object, index: int = 0) -> None:
        self.send(kind, index, json.dumps(data, separators=(",", ":")).encode())

    def send_file(self, path: str, content: bytes) -> None:
        name = path.encode()
        self.send(Kind.FILE, 0, struct.pack("<H", len(name)) + name + content)

    def receive(self, max_body: int = MAX_JSON) -> Frame:
        header = self._read(HEADER.size)
        kind, index, length = HEADER.unpack(header)
        if length > max_body:
            raise BadFrame(f"a frame of {length} bytes is too long")
        body = self._read(length) if length else b""
        try:
            return Frame(Kind(kind), index, body)
        except ValueError as error:
            raise BadFrame(f"unknown frame kind {kind}") from error

    def set_timeout(self, seconds: float | None) -> None:
        """Limit each wait for a peer, and for the rest of what it has begun to send; None waits for ever."""
        self.sock.settimeout(seconds)

    def close(self) -> None:
        self.sock.close()

    def _read(self, length: int) -> bytes:
        parts: list[bytes] = []
        missing = length
        begun = 0.0
        while missing:
            try:
                part = self.sock.recv(min(missing, 1 << 20))
            except TimeoutError as error:
                raise PeerSilent("no answer in time") from error
            except OSError as error:
                raise PeerGone(str(error)) from error
            if not part:
                raise PeerGone("the peer closed the connection")
            parts.append(part)
            missing -= len(part)
            if missing:
                begun = begun or time.monotonic()
                limit = self.sock.gettimeout()
                if limit is not None and time.monotonic() - begun > limit:
                    raise PeerSilent("what it began to send did not end in time")
        return parts[0] if len(parts) == 1 else b"".join(parts)


def split_file(body: bytes) -> tuple[str, bytes]:
    """Path and content of a FILE frame."""
    (length,) = struct.unpack_from("<H", body)
    return body[2 : 2 + length].decode(), body[2 + length :]
