"""The counter answers whoever has the token, and is not impressed by anybody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from workers.protocol.problem import Stage
from workers.workspace.counter import Answer, Counter


@contextlib.asynccontextmanager
async def counter(path, ask):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    served = Counter("right", ask)
    served.open(listener)
    try:
        yield served
    finally:
        await served.close()
        listener.close()


async def told(path, content: bytes) -> dict:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(content)
    line = await asyncio.wait_for(reader.readline(), 15)
    writer.close()
    return json.loads(line) if line else {}


async def passes(stages):
    return Answer(0, f"{len(stages)} stages", {"status": "passed"})


def request(token="right", command="verify") -> bytes:
    return json.dumps({"token": token, "command": command}).encode() + b"\n"


async def test_each_command_asks_for_its_stages(tmp_path):
    asked = []

    async def ask(stages):
        asked.append(stages)
        return await passes(stages)

    async with counter(tmp_path / "s", ask):
        answers = [
            await told(tmp_path / "s", request(command=c)) for c in ("compile", "verify", "profile")
        ]
    assert [a["text"] for a in answers] == ["1 stages", "2 stages", "3 stages"]
    assert answers[0] == {"code": 0, "text": "1 stages", "verdict": {"status": "passed"}}
    assert asked[2] == (Stage.BUILD, Stage.VERIFY, Stage.TIME)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (request(token="wrong"), "not that of this session"),
        (request(token="r\udcffght"), "not that of this session"),
        (request(command="audit"), "there are compile, verify, profile"),
        (b"hello\n", "cannot be read"),
        (b"[]\n", "cannot be read"),
        (b"{}\n", "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
        (b"[" * 3000 + b"\n", "cannot be read"),
        (b"x" * 100_000 + b"\n", "cannot be read"),
    ],
)
async def test_it_refuses_with_a_sentence_and_asks_nobody(tmp_path, content, sentence):
    async def ask(stages):
        raise AssertionError("nobody may be asked")

    async with counter(tmp_path / "s", ask):
        answer = await told(tmp_path / "s", content)
    assert answer["code"] == 2
    assert sentence in answer["text"]
    assert answer["verdict"] is None


async def test_many_at_once_are_served_a_few_at_a_time(tmp_path):
    now, most = 0, 0

    async def ask(stages):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.3)
        now -= 1
        return await passes(stages)

    async with counter(tmp_path / "s", ask):
        answers = await asyncio.gather(*(told(tmp_path / "s", request()) for _ in range(40)))
    assert [answer["code"] for answer in answers] == [0] * 40
    assert 2 <= most <= 16


async def test_who_says_nothing_keeps_nobody_else_waiting(tmp_path):
    async with counter(tmp_path / "s", passes):
        silent = [await asyncio.open_unix_connection(str(tmp_path / "s")) for _ in range(10)]
        assert (await asyncio.wait_for(told(tmp_path / "s", request()), 5))["code"] == 0
        for _, writer in silent:
            writer.close()


async def test_closing_hangs_up_on_those_that_wait(tmp_path):
    async def ask(stages):
        await asyncio.Event().wait()

    async with counter(tmp_path / "s", ask) as served:
        waiting = asyncio.create_task(told(tmp_path / "s", request()))
        await asyncio.sleep(0.1)
        await served.close()
        assert await asyncio.wait_for(waiting, 5) == {}
    assert (tmp_path / "s").exists()
