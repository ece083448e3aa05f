"""The loop: ask the author, run its tool calls, observe, record; until somebody or something ends it."""

from __future__ import annotations

import asyncio
import time

from agent.author import Author, Ending, Reply, Task, storable
from agent.control import Control
from agent.errors import Cancelled, JudgeUnavailable, LimitReached, Stopped
from agent.evaluator import AskAgain, Evaluator, Judged
from agent.history import bad_replies, next_turn, used_shell
from agent.listener import Listener, best_body, evaluation_body
from agent.session import Best, SessionInput, SessionResult, SessionState, TurnRecord
from agent.shell import Shell
from agent.tools.base import Bench, shorten, trim
from agent.tools.report import ratio_text
from agent.tools.toolbox import use
from agent.workspace import Workspace
from workers.protocol.codec import Json
from workers.protocol.events import EventKind
from workers.protocol.problem import Stage
from workers.protocol.transcript import Role, ToolCall, ToolResult, TranscriptEntry
from workers.protocol.verdict import Status
from workers.workspace.desk import DeskSettings

_NUDGE = "This reply called no tool. Call a tool, or end the session if nothing is left to try."


async def run(
    session: SessionInput,
    author: Author,
    evaluator: Evaluator,
    listener: Listener,
    control: Control,
    desks: DeskSettings | None = None,
) -> SessionResult:
    """Run a session to its end, from the start or from behind its last finished turn.

    `desks` says how shells are opened; without it the tool `bash` refuses.

    Errors of the seams (listener, evaluator, author) are not caught: they end the run without a state,
    and the session can be taken up again behind the last `turn_finished`.
    """
    running = _Run(session, author, evaluator, listener, control, desks)
    try:
        return await running.go()
    finally:
        await running.shell.close()


class _Run:
    def __init__(
        self,
        session: SessionInput,
        author: Author,
        evaluator: Evaluator,
        listener: Listener,
        control: Control,
        desks: DeskSettings | None,
    ) -> None:
        self.limits = session.limits
        self.task = Task(session.problem, session.target)
        self.transcript = list(session.transcript)
        self.workspace = Workspace(session.problem, session.workspace)
        self.best = session.best
        self.author, self.evaluator = author, AskAgain(evaluator)
        self.listener, self.control = listener, control
        self.shell = Shell(
            self.workspace,
            self._judge_for_shell,
            self._say,
            desks,
            resumed=used_shell(session.transcript),
            seconds_left=self._seconds_left,
        )
        self.bench = Bench(self.workspace, self.evaluator.inspect, self._judge, self.shell)
        self.began = time.monotonic() - session.elapsed_seconds
        self.announced = self.workspace.author_files
        self.turn = 0

    async def go(self) -> SessionResult:
        try:
            while True:
                ended = await self._take_turn()
                if ended is not None:
                    return ended
        except Cancelled as error:
            return SessionResult(SessionState.STOPPED, str(error), self.best)
        except JudgeUnavailable as error:
            return SessionResult(SessionState.FAILED, str(error), self.best)
        except LimitReached as error:
            return SessionResult(self._state_by_best(), str(error), self.best)

    async def _take_turn(self) -> SessionResult | None:
        self.turn = next_turn(self.transcript)
        await self.control.boundary()
        self._check_limits()
        await self._emit(EventKind.TURN_STARTED, {})
        reply = await self._ask()
        await self._emit(EventKind.MESSAGE, {"role": Role.AUTHOR.value, "text": reply.text})
        results: list[ToolResult] = []
        try:
            for call in reply.tool_calls:
                await self.control.boundary()
                self._check_time()
                results.append(await self._use(call))
        except Stopped as error:
            left = reply.tool_calls[len(results) :]
            results += [ToolResult(c.id, False, f"not run: {error}") for c in left]
            await self._record(reply, results)
            raise
        await self._record(reply, results)
        if reply.ending is Ending.DONE:
            return SessionResult(self._state_by_best(), reply.text, self.best)
        if reply.ending is Ending.GAVE_UP:
            return SessionResult(SessionState.FAILED, reply.text, self.best)
        return None

    async def _ask(self) -> Reply:
        async def delta(text: str) -> None:
            await self.listener.delta(self.turn, text)

        try:
            async with asyncio.timeout(self.limits.reply_seconds):
                reply = await self.author.reply(self.task, tuple(self.transcript), delta)
                return storable(reply)
        except TimeoutError:
            seconds = self.limits.reply_seconds
            raise LimitReached(f"The author gave no reply within {seconds:g} s.") from None

    async def _use(self, call: ToolCall) -> ToolResult:
        shown: dict[str, Json] = {k: shorten(v) for k, v in call.arguments.items()}
        about: dict[str, Json] = {"call": call.id, "tool": call.tool}
        await self._emit(EventKind.TOOL_STARTED, {**about, "arguments": shown})
        started = time.monotonic()
        ok, seen = await use(self.bench, call)
        duration = round((time.monotonic() - started) * 1000, 1)
        await self._emit(
            EventKind.TOOL_FINISHED,
            {**about, "ok": ok, "summary": seen.summary, "duration_ms": duration},
        )
        return ToolResult(call.id, ok, trim(seen.text, self.limits.observation_chars), seen.data)

    async def _record(self, reply: Reply, results: list[ToolResult]) -> None:
        await self._announce_snapshot()
        digest = self.workspace.digest
        lines = [
            TranscriptEntry(
                self.turn,
                Role.AUTHOR,
                reply.text,
                reply.tool_calls,
                (),
                digest,
                reply.usage,
                reply.tokens,
            )
        ]
        if results:
            lines.append(
                TranscriptEntry(self.turn, Role.TOOL, results=tuple(results), snapshot=digest)
            )
        elif reply.ending is None:
            lines.append(TranscriptEntry(self.turn, Role.USER, _NUDGE, snapshot=digest))
        self.transcript += lines
        files = self.workspace.author_files
        await self.listener.turn_finished(
            TurnRecord(self.turn, reply.text, tuple(lines), digest, files, self.best)
        )

    async def _judge(self, stages: tuple[Stage, ...]) -> Judged:
        await self._announce_snapshot()
        async with self.shell.standing_still():
            judged = await self.evaluator.evaluate(self.workspace.author_files, stages)
        await self._emit(EventKind.EVALUATION, evaluation_body(judged, stages[-1]))
        verdict = judged.evaluation
        if verdict.status is Status.PASSED and verdict.timing is not None:
            speedup = verdict.timing.speedup_eager
            new = Best(self.turn, self.workspace.digest, judged.reference, speedup)
            if new.beats(self.best):
                self.best = new
                await self._emit(EventKind.BEST, best_body(new))
        return judged

    async def _judge_for_shell(self, stages: tuple[Stage, ...]) -> Judged:
        """A request from inside the shell: a tool boundary like any other."""
        await self.control.boundary()
        self._check_time()
        return await self._judge(stages)

    async def _say(self, text: str) -> None:
        await self._emit(EventKind.MESSAGE, {"role": Role.SYSTEM.value, "text": text})

    async def _announce_snapshot(self) -> None:
        files = self.workspace.author_files
        changed = sorted(p for p, c in files.items() if self.announced.get(p) != c)
        if changed:
            self.announced = files
            listed: list[Json] = [*changed]
            await self._emit(EventKind.SNAPSHOT, {"digest": self.workspace.digest, "files": listed})

    async def _emit(self, kind: EventKind, body: dict[str, Json]) -> None:
        await self.listener.emit(kind, {"turn": self.turn, **body})

    def _state_by_best(self) -> SessionState:
        return SessionState.FAILED if self.best is None else SessionState.FINISHED

    def _check_limits(self) -> None:
        self._check_time()
        if self.turn > self.limits.turns:
            raise LimitReached(f"All {self.limits.turns} turns are used up{self._best_text()}.")
        bad = bad_replies(self.transcript)
        if bad >= self.limits.bad_replies:
            raise LimitReached(f"{bad} replies in a row did nothing{self._best_text()}.")

    def _seconds_left(self) -> float:
        return self.began + self.limits.wall_seconds - time.monotonic()

    def _check_time(self) -> None:
        if self._seconds_left() < 0:
            seconds = self.limits.wall_seconds
            raise LimitReached(f"The session's {seconds:g} s are used up{self._best_text()}.")

    def _best_text(self) -> str:
        return f"; the best is {ratio_text(self.best.speedup)} against eager" if self.best else ""
