"""A small WebSocket client, enough to hear a session's events as a page does. Standard library only."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from launch.console import LaunchError

_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_LARGEST_FRAME = 8 << 20


def signed_in_cookie(entry: str) -> str:
    """Use a one-time link; returns the cookie header that it gives."""
    parts = urlsplit(entry)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        answer.read()
        cookies = [
            value.split(";")[0] for name, value in answer.getheaders() if name == "Set-Cookie"
        ]
    if not cookies:
        raise LaunchError(f"The sign-in link gave no cookie (status {answer.status}).")
    return "; ".join(cookies)


class Listener:
    """An open socket to `/ws/streams/ID/`."""

    def __init__(self, url: str, path: str, cookie: str, timeout_s: float = 30) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout_s)
        self._buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        request = [
            f"GET {path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Origin: {url}",
            f"Cookie: {cookie}",
        ]
        self._socket.sendall(("\r\n".join(request) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status = head.split(b"\r\n")[0].decode(errors="replace")
        if " 101 " not in f"{status} ":
            raise LaunchError(f"The site refused the socket: {status}")

    def frames(self) -> Iterator[dict[str, Any]]:
        """Each text frame as data, until the server closes or nothing comes within the time-out."""
        while True:
            try:
                opcode, payload = self._frame()
            except (TimeoutError, ConnectionError):
                return
            if opcode == _CLOSE:
                return
            if opcode == _PING:
                self._send(_PONG, payload)
            if opcode == _TEXT:
                yield json.loads(payload)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send(_CLOSE, struct.pack(">H", 1000))
        self._socket.close()

    def _frame(self) -> tuple[int, bytes]:
        first, second = self._take(2)
        length = second & 0x7F
        if length == 126:
            length = int.from_bytes(self._take(2), "big")
        elif length == 127:
            length = int.from_bytes(self._take(8), "big")
        if length > _LARGEST_FRAME:
            raise LaunchError(f"The site sent a frame of {length:,} bytes.")
        payload = self._take(length)
        whole = bool(first & 0x80)
        return first & 0x0F, payload if whole else payload + self._frame()[1]

    def _send(self, opcode: int, payload: bytes) -> None:
        """A short frame, masked as clients must."""
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
        self._socket.sendall(bytes([0x80 | opcode, 0x80 | len(payload)]) + mask + masked)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _fill(self) -> None:
        part = self._socket.recv(65536)
        if not part:
            raise ConnectionError("the server closed the socket")
        self._buffer += part
