"""All tools under their names; whatever an author asks for, an observation comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.errors import Refusal
from agent.tools.base import Bench, Observation, Tool
from agent.tools.bash import Bash
from agent.tools.files import Edit, Glob, Grep, MultiEdit, Read, Write
from agent.tools.judging import Compile, Inspect, Profile, Verify
from agent.tools.todo import Todo
from workers.protocol.transcript import ToolCall

TOOLS: Mapping[str, Tool[Any]] = {
    tool.name: tool
    for tool in (
        Read(),
        Write(),
        Edit(),
        MultiEdit(),
        Glob(),
        Grep(),
        Todo(),
        Inspect(),
        Compile(),
        Verify(),
        Profile(),
        Bash(),
    )
}


async def use(bench: Bench, call: ToolCall) -> tuple[bool, Observation]:
    """Run one call. False stands for a refusal: the tool did nothing and the text says why.

    A verdict that fails a candidate is no refusal: the tool did what it was asked to do.
    """
    tool = TOOLS.get(call.tool)
    if tool is None:
        text = f"there is no tool {call.tool[:60]!r}; there are {', '.join(TOOLS)}"
        return False, Observation(text, text)
    try:
        # Around each tool, so that all of them and the shell see the same files.
        await bench.settle()
        seen = await tool.call(bench, call.arguments)
        await bench.settle()
        return True, seen
    except Refusal as refusal:
        text = str(refusal)
        return False, Observation(text, text.splitlines()[0][:200])
