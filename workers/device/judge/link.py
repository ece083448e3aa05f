"""The judge's end of one runner: commands, go tokens, memory, freezing.

Whatever the runner says is read with limits and turned into `RunnerFailure` when it is not what an
honest runner says; what it means for the verdict is decided by the caller.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from workers.device.judge import memory, processes
from workers.protocol.wire import (
    ELEMENT_TYPES,
    MAX_JSON,
    MAX_NDIM,
    MAX_OUTPUTS,
    OUTPUT,
    BadFrame,
    Channel,
    Frame,
    Kind,
    PeerGone,
    PeerSilent,
)

DTYPES: tuple[torch.dtype, ...] = tuple(getattr(torch, name) for name in ELEMENT_TYPES)
MAX_OUTPUT_BYTES = 8 << 30
MAX_REPLY_DEPTH = 64
# A candidate's replies name its parameters and operators; a problem's hold its whole graph.
MAX_CANDIDATE_REPLY = 4 << 20
# CPU time, in ns, that a process may show when it should have stood: none, and a little for the kernel.
# A thread that was preempted on its way to standing still finishes that way later; on a busy machine
# this has taken more than 10 microseconds.
AWAKE_NS = 1_000_000
# The same for all the times together that it stood: what is too short to be seen once must not add up.
STRAYED_NS = 3_000_000


class RunnerFailure(Exception):
    """A runner did not do as told. `kind`: raised, memory, gone, silent, nonsense, awake."""

    def __init__(
        self, role: str, kind: str, message: str, trace: str = "", where: str = ""
    ) -> None:
        super().__init__(f"{role}: {kind}: {message}")
        self.role = role
        self.kind = kind
        self.message = message
        self.trace = trace
        self.where = where


@dataclass(frozen=True)
class OutputPlace:
    """Where a runner says that an output lies."""

    address: int
    reach: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass
class RunnerLink:
    """One runner. `role` is `reference`, `candidate`, `stub` or `compile`."""

    role: str
    channel: Channel
    pid: int = 0
    torch_version: str = ""
    frozen: bool = False
    most_bytes: int = MAX_OUTPUT_BYTES
    """What the outputs of one call may take; set lower once the reference's are known."""
    woken_ns: int = 0
    stood_ns: int = 0
    """CPU time of the process when it was last woken up and when it last stood."""
    strayed_ns: int = 0
    """CPU time that it has used so far while it should have stood."""

    def greet(self, limit_s: float) -> None:
        """Take the first message. The kernel, not the runner, tells whose it is."""
        self.channel.set_timeout(limit_s)
        try:
            # Look at the credentials of the first byte, then read the frame as usual.
            _, ancillary, _, _ = self.channel.sock.recvmsg(
                1, socket.CMSG_SPACE(12), socket.MSG_PEEK
            )
            frame = self.channel.receive()
        except (PeerGone, TimeoutError, BadFrame, OSError) as error:
            raise RunnerFailure(
                self.role, "start", f"the runner did not start ({error})"
            ) from error
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("3i", data[:12])[0]
        if frame.kind is not Kind.HELLO or self.pid <= 0:
            raise RunnerFailure(self.role, "start", "the runner did not start properly")
        self.torch_version = str(frame.json().get("torch", ""))[:40]
        self.channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)

    def command(self, name: str, limit_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a command and return its reply."""
        self.thaw()
        try:
            self.channel.set_timeout(limit_s)
            self.channel.send_json(Kind.COMMAND, {"do": name, **arguments})
            untrusted = self.role in ("candidate", "stub")
            frame = self.channel.receive(MAX_CANDIDATE_REPLY if untrusted else MAX_JSON)
            reply = self._checked(frame, Kind.REPLY).json()
            return {_plain(key): _cleaned(value) for key, value in reply.items()}
        except (PeerGone, PeerSilent, BadFrame) as error:
            raise self._lost(error) from error

    def send_file(self, path: str, content: bytes) -> None:
        self.thaw()
        try:
            self.channel.set_timeout(60.0)
            self.channel.send_file(path, content)
        except (PeerGone, PeerSilent) as error:
            raise self._lost(error) from error

    def go(
        self,
        index: int,
        kind: Kind = Kind.GO,
        meanwhile: Callable[[], None] | None = None,
    ) -> bytes:
        """One go token; returns the packed output records. The hot path of the clock.

        `meanwhile` is done while the runner works.
        """
        try:
            self.channel.send(kind, index)
            if meanwhile is not None:
                meanwhile()
            frame = self.channel.receive(MAX_OUTPUTS * OUTPUT.size)
            if frame.kind is Kind.DONE and frame.index == index:
                return frame.body
            self._checked(frame, Kind.DONE)
            raise BadFrame("answered for another input set")
        except (PeerGone, PeerSilent, BadFrame) as error:
            raise self._lost(error) from error

    def release(self) -> None:
        """Let the runner forget the outputs of the last block."""
        self.thaw()
        try:
            self.channel.send(Kind.RELEASE)
        except (PeerGone, PeerSilent) as error:
            raise self._lost(error) from error

    def set_timeout(self, seconds: float) -> None:
        self.channel.set_timeout(seconds)

    def freeze(self) -> None:
        self._watch()
        try:
            self.stood_ns = processes.freeze(self.pid)
        except (ProcessLookupError, FileNotFoundError) as error:
            raise RunnerFailure(self.role, "gone", "the process ended") from error
        except processes.StopFailed as error:
            raise RunnerFailure(self.role, "silent", str(error)) from error
        self.frozen = True

    def thaw(self) -> None:
        self._watch()
        if self.frozen:
            try:
                processes.thaw(self.pid)
            except ProcessLookupError as error:
                raise RunnerFailure(self.role, "gone", "the process ended") from error
            self.frozen = False

    def _watch(self) -> None:
        """Whether the process stood while it should have; a signal of its own making may wake it."""
        if not self.frozen:
            return
        try:
            self.woken_ns = processes.cpu_ns(self.pid)
        except ProcessLookupError as error:
            raise RunnerFailure(self.role, "gone", "the process ended") from error
        strayed_ns = self.woken_ns - self.stood_ns
        self.strayed_ns += strayed_ns
        if strayed_ns > AWAKE_NS or self.strayed_ns > STRAYED_NS:
            if processes.ends(self.pid):
                raise RunnerFailure(self.role, "gone", "the process ended")
            raise RunnerFailure(self.role, "awake", "it ran while it should have stood still")

    @property
    def burnt_ms(self) -> float:
        """CPU time between the last waking up and the stop after it."""
        return (self.stood_ns - self.woken_ns) / 1e6

    @contextlib.contextmanager
    def claims(self) -> Iterator[None]:
        """Within it, whatever a reply lacks or has of the wrong form is the runner's failure."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RunnerFailure(self.role, "nonsense", "a malformed reply") from error

    def outputs(self, body: bytes) -> list[torch.Tensor]:
        """Copies of the outputs that a DONE body describes."""
        return [self.read_output(place) for place in self.places(body)]

    def places(self, body: bytes) -> list[OutputPlace]:
        """Where the outputs of a DONE body lie, within the limits of this runner."""
        places = parse_outputs(self.role, body)
        if sum(place.reach for place in places) > self.most_bytes:
            raise RunnerFailure(
                self.role, "nonsense", f"the outputs reach over more than {self.most_bytes:,} bytes"
            )
        return places

    def read(self, address: int, length: int) -> torch.Tensor:
        """Copy bytes out of the runner."""
        try:
            buffer = torch.empty(length, dtype=torch.uint8)
        except (RuntimeError, TypeError) as error:
            raise RunnerFailure(
                self.role, "memory", f"{length:,} bytes are too many to be looked at"
            ) from error
        if length:
            try:
                memory.read_into(self.pid, address, buffer.data_ptr(), length)
            except OSError as error:
                raise RunnerFailure(
                    self.role, "nonsense", f"its memory cannot be read ({error})"
                ) from error
        return buffer

    def write(self, address: int, content: torch.Tensor) -> None:
        """Copy a contiguous tensor's bytes into the runner."""
        length = content.numel() * content.element_size()
        if length:
            try:
                memory.write_from(self.pid, address, content.data_ptr(), length)
            except OSError as error:
                raise RunnerFailure(
                    self.role, "nonsense", f"its memory cannot be written ({error})"
                ) from error

    def read_output(self, place: OutputPlace) -> torch.Tensor:
        """Copy an output and give it shape; strides as the runner claims, checked against its reach."""
        raw = self.read(place.address, place.reach)
        flat = raw.view(place.dtype)
        return flat.as_strided(place.shape, place.strides)

    def _checked(self, frame: Frame, expected: Kind) -> Frame:
        if frame.kind is expected:
            return frame
        if frame.kind is Kind.FAILED:
            data = frame.json()
            text = {
                key: _plain(str(data.get(key, ""))[:8000])
                for key in ("kind", "message", "trace", "where")
            }
            kind = "memory" if text["kind"] == "memory" else "raised"
            name = "" if text["kind"] in ("", "memory") else text["kind"] + ": "
            raise RunnerFailure(
                self.role, kind, name + text["message"], text["trace"], text["where"]
            )
        raise BadFrame(f"sent {frame.kind.name} where {expected.name} was due")

    def _lost(self, error: Exception) -> RunnerFailure:
        if isinstance(error, PeerGone):
            return RunnerFailure(self.role, "gone", "the process ended")
        if isinstance(error, PeerSilent):
            return RunnerFailure(self.role, "silent", "no answer in time")
        return RunnerFailure(self.role, "nonsense", f"its answer was malformed ({error})")


def parse_outputs(role: str, body: bytes) -> list[OutputPlace]:
    """Read packed output records; refuses what an honest runner cannot have sent."""
    if len(body) % OUTPUT.size:
        raise RunnerFailure(role, "nonsense", "malformed output records")
    places = []
    for record in OUTPUT.iter_unpack(body):
        address, reach, code, ndim = record[:4]
        if code >= len(DTYPES) or ndim > MAX_NDIM:
            raise RunnerFailure(role, "nonsense", "malformed output records")
        shape = tuple(record[4 : 4 + ndim])
        strides = tuple(record[4 + MAX_NDIM : 4 + MAX_NDIM + ndim])
        dtype = DTYPES[code]
        if min((*shape, *strides), default=0) < 0 or reach != _reach(shape, strides, dtype):
            raise RunnerFailure(role, "nonsense", "output records contradict themselves")
        if math.prod(shape) * dtype.itemsize > MAX_OUTPUT_BYTES or reach > MAX_OUTPUT_BYTES:
            raise RunnerFailure(role, "memory", "an output is larger than 8 GiB")
        places.append(OutputPlace(address, reach, dtype, shape, strides))
    return places


def _reach(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> int:
    if 0 in shape:
        return 0
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return (last + 1) * dtype.itemsize


def _plain(text: str) -> str:
    """Text that every store and encoding takes: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()


def _cleaned(value: Any, depth: int = 0) -> Any:
    """A reply's value without odd text; refuses what is nested too deeply to be looked at."""
    if depth > MAX_REPLY_DEPTH:
        raise BadFrame("a reply is nested too deeply")
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _cleaned(item, depth + 1) for key, item in value.items()}
    return value


def now_ms() -> float:
    """The judge's clock in milliseconds."""
    return time.perf_counter() * 1e3
