"""The counter at which programs in a workspace's sandbox ask the judge.

A request is one line of JSON, `{"token", "command"}`; the answer is one line as well, `{"code", "text", "verdict"}`
(see `Answer`). The token is that of one desk: whoever has not read it inside that sandbox gets nothing. Everything
that comes in is hostile: lines are short, connections few, and nobody may dawdle.
"""

from __future__ import annotations

import asyncio
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
_BREATH_S = 0.01

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
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def open(self, listener: socket.socket) -> None:
        """Begin to serve; the socket stays the caller's and must not be closed before `close`."""
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(listener))

    async def close(self) -> None:
        """Take no more requests and hang up on those that wait."""
        tasks = [*self._serving, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        """Take in a few at a time, and not too fast: the others wait in the kernel, where they cost nothing."""
        free = asyncio.Semaphore(_MOST_CONNECTIONS)
        loop = asyncio.get_running_loop()
        while True:
            await free.acquire()
            connection, _ = await loop.sock_accept(listener)
            task = asyncio.create_task(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
            task.add_done_callback(lambda _: free.release())
            await asyncio.sleep(_BREATH_S)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=_MOST_BYTES)
        except OSError:
            connection.close()
            return
        try:
            answer = await self._answer(reader)
            line = {"code": answer.code, "text": answer.text, "verdict": answer.verdict}
            writer.write(json.dumps(line).encode() + b"\n")
            async with asyncio.timeout(_PATIENCE_S):
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # The client has gone or does not read.
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
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
