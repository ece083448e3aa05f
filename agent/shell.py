"""The author's shell: one desk per session, opened when it is first needed.

The workspace in memory is the truth; the desk's folder is a mirror of it. `settle` carries changes in both
directions and is called around every tool, so that all tools see the same files. Programs at the desk may ask the judge
(`workers.workspace.counter`) while a command of the author runs; such a request obeys the same limits and makes the same
events as the tools `compile`, `verify` and `profile`, and what ends the session ends the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from agent.errors import Refusal
from agent.evaluator import Judged
from agent.output import FLOOD_BYTES, Output
from agent.tools.report import describe
from agent.workspace import Workspace
from workers.artifacts import ArtifactMissing
from workers.protocol.problem import Stage
from workers.workspace.counter import REFUSED, Answer, Counter, answer_of
from workers.workspace.desk import Desk, DeskError, DeskSettings
from workers.workspace.mirror import Mirror
from workers.workspace.pybind import EXTENSION, is_hand_written

MOST_COMMAND_BYTES = 100_000
_ANSWER_BYTES = 1 << 18
_TICK_S = 0.5
_LAST_ANSWER_S = 5.0
_RESUMED = (
    "This session was taken up again, so this is a new shell: variables, background jobs and all files "
    "but the author's own are gone."
)
_NEW = (
    "The old shell was ended with all that ran in it, so this is a new one: only the author's own files "
    "were kept."
)
_OVER = "The session has ended or was stopped; nothing was judged."
_ENDED_WITH_ALL = "was ended, with all that it had started"
_BACKGROUND = "Run what takes long in the background."


@dataclass
class Ran:
    """How a command went."""

    code: int | None
    """Exit code; None where it was ended or bash went with it."""
    output: bytes
    kept_as: str = ""
    """Path of the whole output, where it is too long to be shown."""
    changed: tuple[str, ...] = ()
    """Files of the author's that it changed."""
    notes: list[str] = field(default_factory=list)
    """Sentences on what else happened."""
    verdicts: list[Judged] = field(default_factory=list)


@dataclass
class _Open:
    """An open desk and what belongs to it."""

    desk: Desk
    mirror: Mirror
    counter: Counter


class Shell:
    """Opens a desk when it is first needed and closes it with the session."""

    def __init__(
        self,
        workspace: Workspace,
        judge: Callable[[tuple[Stage, ...]], Awaitable[Judged]],
        say: Callable[[str], Awaitable[None]],
        settings: DeskSettings | None,
        *,
        resumed: bool = False,
        seconds_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`judge` checks the session's limits first; `say` makes an event of a sentence.

        `seconds_left` is what the session has left of its wall time.
        """
        self._workspace = workspace
        self._judge = judge
        self._say = say
        self._settings = settings
        self._seconds_left = seconds_left
        self._open: _Open | None = None
        self._news = _RESUMED if resumed else ""
        self._attended = asyncio.Event()
        """Set while a command of the author runs: only then may programs ask the judge."""
        self._one_by_one = asyncio.Lock()
        self._judging: list[asyncio.Task[Answer]] = []
        self._changed: set[str] = set()
        self._verdicts: list[Judged] = []
        self._outputs = 0

    async def settle(self) -> tuple[str, ...]:
        """Carry changes between workspace and folder; sentences on what was refused or failed."""
        if self._open is None:
            return ()
        return await asyncio.to_thread(self._settle, self._open.mirror)

    def _settle(self, mirror: Mirror) -> tuple[str, ...]:
        taken = mirror.take(self._workspace.author_files)
        self._workspace.replace(taken.files)
        self._changed.update(taken.changed)
        return (*taken.refused, *mirror.put(taken.files))

    @contextlib.asynccontextmanager
    async def standing_still(self) -> AsyncIterator[None]:
        """Nothing at the desk computes within; the judge measures meanwhile."""
        desk = self._open.desk if self._open else None
        if desk is None:
            yield
            return
        await asyncio.to_thread(desk.stand_still)
        try:
            yield
        finally:
            await asyncio.to_thread(desk.go_on)

    async def run(self, command: str, seconds: float, shown_bytes: int) -> Ran:
        """Run a command and wait for its end, `seconds` at most, not counting the judge's own time.

        Raises `Refusal` where there can be no shell, and whatever ended the session meanwhile.
        """
        message = json.dumps({"command": command}).encode()
        if len(message) > MOST_COMMAND_BYTES:
            raise Refusal(
                f"a command has at most {MOST_COMMAND_BYTES:,} bytes; `write` a file and run that"
            )
        opened, notes = await self._opened()
        notes += await self.settle()
        output = Output(opened.desk.output)
        self._verdicts, self._changed = [], set()
        code, ending = await self._attend(opened.desk, message, seconds, output)
        problems = await asyncio.to_thread(self._settle, opened.mirror)
        notes += [note for note in (ending, *problems) if note and note not in notes]
        changed = tuple(sorted(self._changed))
        ran = Ran(code, output.kept(), "", changed, notes, self._verdicts)
        if output.total > shown_bytes:
            ran.kept_as = await asyncio.to_thread(self._keep, opened.mirror, ran)
        if opened.desk.process.poll() is not None:
            notes.append(
                "The shell was ended with all that ran in it; the next command opens another."
            )
            await self._give_up()
        return ran

    async def _give_up(self) -> None:
        """Leave a dead desk; what its folder held of the author's is taken over first."""
        await self.settle()
        await self.close()
        self._news = _NEW

    async def close(self) -> None:
        """Kill all that runs at the desk; changes up to now are in the workspace."""
        opened, self._open = self._open, None
        for task in self._judging:
            task.cancel()
        if opened is not None:
            await opened.counter.close()
            await asyncio.to_thread(opened.mirror.close)
            await asyncio.to_thread(opened.desk.close)

    async def _opened(self) -> tuple[_Open, list[str]]:
        if self._open is not None and self._open.desk.process.poll() is not None:
            # A job in the background has killed it, or it ran out of memory.
            await self._give_up()
        if self._open is not None:
            return self._open, []
        if self._settings is None:
            raise Refusal("this session has no shell; use the other tools")
        starting = asyncio.ensure_future(
            asyncio.to_thread(Desk, self._settings, self._workspace.problem)
        )
        try:
            desk = await asyncio.shield(starting)
        except DeskError as error:
            raise Refusal(
                f"there is no shell here: {error}. Use `write`, `edit`, `compile`, `verify` and `profile`"
            ) from error
        except asyncio.CancelledError:
            # Nobody would know of a desk that comes up later.
            with contextlib.suppress(DeskError):
                await asyncio.to_thread((await starting).close)
            raise
        os.set_blocking(desk.output, False)
        counter = Counter(desk.token, self._ask)
        self._open = _Open(desk, Mirror(desk.folder, desk.owner), counter)
        assert desk.listener is not None
        counter.open(desk.listener)
        news, self._news = self._news, ""
        if news:
            await self._say(news)
        return self._open, [news] if news else []

    async def _attend(
        self, desk: Desk, message: bytes, seconds: float, output: Output
    ) -> tuple[int | None, str]:
        """Exit code, and a sentence where the end was not a plain one."""
        before = await asyncio.to_thread(desk.pids)
        loop = asyncio.get_running_loop()
        working = asyncio.create_task(_talk(desk, message))
        loop.add_reader(output.source, output.read)
        try:
            why = await self._watch(working, seconds, output)
            if why:
                await asyncio.to_thread(desk.end_command, before)
                await asyncio.wait([working], timeout=_LAST_ANSWER_S)
                await self._last_judgements()
            answer = working.result() if working.done() else {}
            if not answer:
                # Nobody is there to answer, or a late answer would be taken for that of the next command.
                await asyncio.to_thread(desk.process.kill)
        except BaseException:
            await asyncio.to_thread(desk.end_command, before)
            raise
        finally:
            loop.remove_reader(output.source)
            working.cancel()
        output.drain()
        return (None, why) if why else _outcome(answer)

    async def _watch(
        self, working: asyncio.Task[dict[str, object]], seconds: float, output: Output
    ) -> str:
        """Wait for the command and for judgements under way; a sentence where it has to be ended."""
        left = seconds
        self._attended.set()
        try:
            while True:
                self._look_at_judgements()
                tasks = [task for task in (working, *self._judging) if not task.done()]
                if not tasks:
                    return ""
                if output.flooded and not working.done():
                    return f"It printed more than {FLOOD_BYTES >> 20} MiB and {_ENDED_WITH_ALL}."
                if self._seconds_left() <= 0 and not self._judging:
                    return f"The session's time is used up, so it {_ENDED_WITH_ALL}."
                if left <= 0 and not self._judging:
                    return (
                        f"It did not end within {seconds:g} s and {_ENDED_WITH_ALL}. {_BACKGROUND}"
                    )
                began, counts = time.monotonic(), not self._judging
                await asyncio.wait(tasks, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
                left -= (time.monotonic() - began) * counts
        finally:
            # At once, so that no judgement begins that nobody waits for.
            self._attended.clear()

    def _look_at_judgements(self) -> None:
        """Forget those that are over; raises what ended one, which ends the session."""
        over = [task for task in self._judging if task.done()]
        self._judging = [task for task in self._judging if task not in over]
        for task in over:
            task.result()

    async def _last_judgements(self) -> None:
        if self._judging:
            await asyncio.wait(self._judging)
        self._look_at_judgements()

    async def _ask(self, stages: tuple[Stage, ...]) -> Answer:
        """A request from inside; waits until the author runs a command."""
        async with self._one_by_one:
            await self._attended.wait()
            task = asyncio.create_task(self._judge_now(stages))
            self._judging.append(task)
            await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            return Answer(REFUSED, _OVER)
        return task.result()

    async def _judge_now(self, stages: tuple[Stage, ...]) -> Answer:
        problems = await self.settle()
        if problems:
            return Answer(REFUSED, "Nothing was judged: " + "; ".join(problems))
        judged = await self._judge(stages)
        self._verdicts.append(judged)
        await asyncio.to_thread(self._hand_out, judged)
        return answer_of(judged.evaluation, describe(judged.evaluation))

    def _hand_out(self, judged: Judged) -> None:
        """Put a hand-bound extension beside model_new.py, so that the author's scripts can import it."""
        if self._open is None or judged.library is None:
            return
        if is_hand_written(self._workspace.author_files):
            # A nicety: without it, and where there is no room for it, the verdict is the same.
            with contextlib.suppress(ArtifactMissing):
                self._open.mirror.write(EXTENSION, judged.library())

    def _keep(self, mirror: Mirror, ran: Ran) -> str:
        """Put the whole output where the author can read it."""
        self._outputs += 1
        path = f"outputs/{self._outputs}.txt"
        self._workspace.keep_output(path, ran.output)
        if problem := mirror.write(path, ran.output):
            ran.notes.append(f"{problem}; the tool `read` shows it.")
        return path


async def _talk(desk: Desk, message: bytes) -> dict[str, object]:
    """Hand a command to the driver and wait for its answer; empty where the desk is gone."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(desk.control, message)
        said = await loop.sock_recv(desk.control, _ANSWER_BYTES)
        answer = json.loads(said)
    except (OSError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _outcome(answer: dict[str, object]) -> tuple[int | None, str]:
    ended, code = answer.get("ended"), answer.get("code")
    if ended:
        text = f"bash ended {str(ended)[:100]}; the next command gets a new one, without its variables."
        return None, text
    return (code, "") if isinstance(code, int) else (None, "")
