"""The counter at which programs in a workspace's sandbox ask the judge.

A request is one line of JSON, `{"token", "command"}`; the answer is one line as well, `{"code", "text", "verdict"}`
(see `Answer`). The token is that of one desk: whoever has not read it inside that sandbox gets nothing. Everything
that comes in is hostile: lines are short, connections few, and nobody may dawdle.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from workers.protocol.codec import Json, to_data
from workers.protocol.problem import Stage
from workers.protocol.verdict import Evaluation, Status

COMMANDS = {
    "compile": (Stage.BUILD,),
    "verify": (Stage.BUILD, Stage.VERIFY),
    "profile": (Stage.BUILD, Stage.VERIFY, Stage.TIME),
}
_MOST_BYTES = 4096
_PATIENCE_S = 10.0
_MOST_CONNECTIONS = 16

REFUSED = 2
"""Exit code of a client whose request was refused."""


@dataclass(frozen=True)
class Answer:
    """What a client prints and how it ends."""

    code: int
    """Its exit code: 0 passed, 1 another verdict about the candidate, 2 refused, 3 infrastructure."""
    text: str
    """For people and agents."""
    verdict: Json = None
    """The verdict in its JSON form; none where nothing was judged."""


Ask = Callable[[tuple[Stage, ...]], Awaitable[Answer]]


class Counter:
    """Serves one desk's listening socket."""

    def __init__(self, token: str, ask: Ask) -> None:
        self._token = token
        self._ask = ask
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, listener: socket.socket) -> None:
        """Begin to serve; takes the socket over."""
        # Not as a Unix server: that would look for the socket's path out here, and remove it in the end.
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=_MOST_BYTES)

    def close(self) -> None:
        """Take no more requests and hang up on those that wait."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            answer = await self._answer(reader)
            line = {"code": answer.code, "text": answer.text, "verdict": answer.verdict}
            writer.write(json.dumps(line).encode() + b"\n")
            async with asyncio.timeout(_PATIENCE_S):
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # The client has gone or does not read.
        finally:
            self._serving.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        if len(self._serving) > _MOST_CONNECTIONS:
            return Answer(REFUSED, "Too many requests at once; wait for those that are under way.")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                request = json.loads(await reader.readline())
            token, command = str(request["token"]), str(request["command"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return Answer(REFUSED, "The request cannot be read; use the commands in utils/.")
        if not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
            return Answer(REFUSED, "The token is not that of this session.")
        if command not in COMMANDS:
            names = ", ".join(COMMANDS)
            return Answer(REFUSED, f"There is no command {command[:40]!r}; there are {names}.")
        return await self._ask(COMMANDS[command])


def answer_of(evaluation: Evaluation, report: str) -> Answer:
    """The answer that hands a verdict out."""
    codes = {Status.PASSED: 0, Status.INFRASTRUCTURE: 3}
    return Answer(codes.get(evaluation.status, 1), report, to_data(evaluation))
