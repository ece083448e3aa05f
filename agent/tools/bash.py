"""The tool `bash`: a shell in a sandbox, with the workspace as its folder."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import Refusal
from agent.output import excerpt
from agent.shell import Ran
from agent.tools.base import Bench, Observation, Tool
from agent.tools.judging import compact
from workers.protocol.codec import Json

_SHOWN_BYTES = 9000
_MOST_SECONDS = 900.0


@dataclass(frozen=True)
class BashForm:
    """Arguments of `bash`."""

    command: str
    seconds: float = 120.0
    """After this time the command is ended; the judge's own time does not count."""


class Bash(Tool[BashForm]):
    """Runs a command in the session's shell."""

    name = "bash"
    purpose = (
        "Run a command in a shell that keeps its folder, variables and background jobs; it has the "
        "toolchain, python3 with torch, the judge's commands in utils/ and no network."
    )
    form = BashForm

    async def run(self, bench: Bench, arguments: BashForm) -> Observation:
        """What it printed and how it ended; raises `Refusal` where there is no shell."""
        if not arguments.command.strip():
            raise Refusal("`command` is empty")
        if not 0 < arguments.seconds <= _MOST_SECONDS:
            raise Refusal(f"`seconds` must be above 0 and at most {_MOST_SECONDS:g}")
        if bench.shell is None:
            raise Refusal("this session has no shell; use the other tools")
        ran = await bench.shell.run(arguments.command, arguments.seconds, _SHOWN_BYTES)
        verdicts = [compact(judged) for judged in ran.verdicts]
        data: dict[str, Json] = {"exit_code": ran.code, "verdicts": verdicts}
        return Observation(_text(ran), _summary(ran), data)


def _text(ran: Ran) -> str:
    parts = [_shown(ran).rstrip("\n")]
    parts += [f"[{note}]" for note in ran.notes]
    if ran.changed:
        parts.append(f"[files changed: {', '.join(ran.changed[:40])}]")
    if ran.code:
        parts.append(f"[exit code {ran.code}]")
    return "\n".join(part for part in parts if part) or "(no output)"


def _shown(ran: Ran) -> str:
    text = excerpt(ran.output, _SHOWN_BYTES)
    return f"{text}\n[all of the output is in {ran.kept_as}]" if ran.kept_as else text


def _summary(ran: Ran) -> str:
    """One line for people: the last verdict says most, then what went wrong."""
    parts = [f"{j.evaluation.status}: {j.evaluation.summary}" for j in ran.verdicts[-1:]]
    if ran.code is None:
        parts += ran.notes[:1]
    elif ran.code or not parts:
        parts.append(f"exit code {ran.code}")
    if ran.changed:
        parts.append(f"{len(ran.changed)} file{'' if len(ran.changed) == 1 else 's'} changed")
    return "; ".join(parts)
