"""What all tools share: arguments as dataclasses, observations, and the bench they work at."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from agent.errors import Refusal
from agent.evaluator import Judged
from agent.shell import Shell
from agent.workspace import Workspace
from workers.protocol.codec import Json, ProtocolError, from_data
from workers.protocol.problem import Stage

A = TypeVar("A")

_SHOWN_CHARS = 200


@dataclass(frozen=True)
class Observation:
    """What a tool saw."""

    text: str
    """For the author."""
    summary: str
    """One line for people."""
    data: Json = None
    """The same as data, where there is more to it than text."""


@dataclass(frozen=True)
class Bench:
    """What tools may touch."""

    workspace: Workspace
    inspect: Callable[[], Awaitable[Judged]]
    """The verdict on the problem alone."""
    judge: Callable[[tuple[Stage, ...]], Awaitable[Judged]]
    """The verdict on the workspace as it is now."""
    shell: Shell | None = None
    """Where commands run; none where a bench has only files and the judge."""

    async def settle(self) -> None:
        """Let workspace and shell agree on the files; what was refused is told by `bash`."""
        if self.shell is not None:
            await self.shell.settle()


class Tool(ABC, Generic[A]):
    """One tool. `form` is the dataclass of its arguments; its fields' docstrings are for authors."""

    name: ClassVar[str]
    purpose: ClassVar[str]
    form: type[A]

    async def call(self, bench: Bench, arguments: dict[str, Json]) -> Observation:
        """Check the arguments and run; raises `Refusal` where something is wrong with them."""
        try:
            parsed = from_data(self.form, arguments)
        except ProtocolError as error:
            told = str(error).replace(self.form.__name__, self.name)
            raise Refusal(f"{told}; arguments of {self.name}: {self.usage()}") from error
        return await self.run(bench, parsed)

    def usage(self) -> str:
        """The names of the arguments, those that may be left out in brackets."""
        parts = []
        for item in dataclasses.fields(self.form):  # type: ignore[arg-type]
            optional = (
                item.default is not dataclasses.MISSING
                or item.default_factory is not dataclasses.MISSING
            )
            parts.append(f"[{item.name}]" if optional else item.name)
        return ", ".join(parts) or "none"

    @abstractmethod
    async def run(self, bench: Bench, arguments: A) -> Observation:
        """Do the work; raises `Refusal` with a sentence that says what to do instead."""


def trim(text: str, limit: int) -> str:
    """Cut the middle out of a long text: what counts stands at its head and at its tail."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    cut = len(text) - head - tail
    return f"{text[:head]}\n[... {cut:,} characters left out ...]\n{text[len(text) - tail :]}"


def shorten(value: Json) -> Json:
    """A tool's argument as it is shown to people; long ones are cut."""
    if isinstance(value, str) and len(value) > _SHOWN_CHARS:
        return f"{value[:_SHOWN_CHARS]}… ({len(value):,} characters)"
    if isinstance(value, (list, dict)) and len(str(value)) > _SHOWN_CHARS:
        return f"{str(value)[:_SHOWN_CHARS]}…"
    return value
