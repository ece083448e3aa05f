"""Whatever an author asks for, it gets an observation, and the workspace's rules hold."""

from __future__ import annotations

import pytest

from agent.errors import Refusal
from agent.evaluator import Judged
from agent.tools.base import Bench, trim
from agent.tools.toolbox import TOOLS, use
from agent.workspace import Workspace, template_files
from workers.protocol.files import manifest_of
from workers.protocol.transcript import ToolCall

PROBLEM = {"model.py": b"import torch\nx = 1\n", "problem.toml": b""}


@pytest.fixture
def bench(make_verdict):
    async def inspect():
        return Judged(make_verdict())

    async def judge(stages):
        return Judged(make_verdict())

    return Bench(Workspace(PROBLEM, {"model_new.py": b"a = 1\nb = 1\n"}), inspect, judge)


async def ask(bench, tool, **arguments):
    return await use(bench, ToolCall("1", tool, arguments))


async def test_an_unknown_tool_is_answered_with_the_names_of_all(bench):
    ok, seen = await ask(bench, "browse", address="ls")
    assert not ok
    assert all(name in seen.text for name in TOOLS)


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("write", {}, "'path' is missing"),
        ("write", {"path": "model_new.py", "content": 3}, "expected str"),
        ("write", {"path": "model_new.py", "content": "", "mode": "a"}, "unknown field 'mode'"),
        ("write", {"path": "model.py", "content": ""}, "read only"),
        ("write", {"path": "SKILL.md", "content": ""}, "read only"),
        ("write", {"path": "../x.py", "content": ""}, "not allowed"),
        ("write", {"path": "/etc/passwd", "content": ""}, "not allowed"),
        ("write", {"path": "notes.txt", "content": ""}, "cannot be written"),
        ("write", {"path": "kernels/../../x.cpp", "content": ""}, "not allowed"),
        ("write", {"path": "kernels/k.cpp", "content": "x" * (1 << 21)}, "bytes; "),
        ("read", {"path": "nothing.py"}, "does not exist"),
        ("read", {"path": "../../etc/passwd"}, "not allowed"),
        ("read", {"path": "model.py", "first_line": 0}, "at least 1"),
        ("edit", {"path": "model.py", "old": "x", "new": "y"}, "model.py"),
        ("edit", {"path": "model_new.py", "old": "c = 1", "new": ""}, "does not hold that text"),
        ("edit", {"path": "model_new.py", "old": "= 1", "new": "= 2"}, "2 times"),
        ("edit", {"path": "model_new.py", "old": "", "new": "= 2"}, "empty"),
        ("multi_edit", {"path": "model_new.py", "edits": []}, "is empty"),
        ("multi_edit", {"path": "model_new.py", "edits": [{"old": "a = 1"}]}, "'new' is missing"),
        (
            "multi_edit",
            {
                "path": "model_new.py",
                "edits": [{"old": "a", "new": "c"}, {"old": "= 1", "new": ""}],
            },
            "edit 2: model_new.py holds that text 2 times",
        ),
        ("multi_edit", {"path": "model.py", "edits": [{"old": "x", "new": "y"}]}, "read only"),
        ("bash", {"command": "true"}, "no shell"),
        ("grep", {"pattern": "("}, "not a regular expression"),
        ("todo", {"items": [{"text": "a", "state": "later"}]}, "none of open, doing, done"),
        ("todo", {"items": "a"}, "expected a list"),
        ("profile", {"tier": "full"}, "unknown field 'tier'"),
    ],
)
async def test_it_refuses_with_a_sentence_and_changes_nothing(bench, tool, arguments, told):
    before = bench.workspace.author_files
    ok, seen = await ask(bench, tool, **arguments)
    assert not ok
    assert told in seen.text
    assert bench.workspace.author_files == before


async def test_files_can_be_written_edited_read_listed_and_searched(bench):
    assert (await ask(bench, "write", path="kernels/k.cpp", content="int a;\nint b;\n"))[0]
    assert (await ask(bench, "edit", path="kernels/k.cpp", old="int b;", new="int c;"))[0]
    _, seen = await ask(bench, "read", path="kernels/k.cpp", first_line=2)
    assert seen.text.split() == ["2", "int", "c;"]
    _, seen = await ask(bench, "glob", pattern="kernels/*.cpp")
    assert seen.text == "kernels/k.cpp"
    _, seen = await ask(bench, "grep", pattern=r"int \w", paths="kernels/*")
    assert seen.text.splitlines() == ["kernels/k.cpp:1: int a;", "kernels/k.cpp:2: int c;"]
    ok, _ = await ask(bench, "edit", path="model_new.py", old="= 1", new="= 2", all=True)
    assert ok
    assert bench.workspace.author_files["model_new.py"] == b"a = 2\nb = 2\n"


async def test_several_edits_are_made_in_order_each_on_what_the_one_before_left(bench):
    edits = [
        {"old": "a = 1", "new": "c = 1\nc = 2"},
        {"old": "c", "new": "d", "all": True},
        {"old": "d = 2", "new": ""},
    ]
    ok, seen = await ask(bench, "multi_edit", path="model_new.py", edits=edits)
    assert ok, seen.text
    assert seen.text == "edited model_new.py in 4 places"
    assert bench.workspace.author_files["model_new.py"] == b"d = 1\n\nb = 1\n"


async def test_the_list_of_things_to_do_comes_back(bench):
    items = [{"text": "fuse", "state": "done"}, {"text": "tune"}]
    ok, seen = await ask(bench, "todo", items=items)
    assert ok
    assert seen.text == "[x] fuse\n[ ] tune"


def test_the_digest_is_that_of_the_authors_files_alone():
    files = {"model_new.py": b"x", "kernels/a.cpp": b"y"}
    workspace = Workspace(PROBLEM, {**files, "model.py": b"changed"})
    assert workspace.digest == manifest_of(files).digest
    assert workspace.read("model.py") == PROBLEM["model.py"].decode()
    assert Workspace(PROBLEM, {}).digest == ""


def test_every_workspace_has_the_instructions_in_it():
    text = Workspace(PROBLEM, {}).read("SKILL.md")
    assert "kernels/ops.json" in text
    assert "SKILL.md" in template_files()
    with pytest.raises(Refusal):
        Workspace(PROBLEM, {}).write("SKILL.md", "mine")


def test_trimming_keeps_head_and_tail():
    assert trim("abc", 10) == "abc"
    cut = trim("a" * 500 + "z" * 500, 300)
    assert cut.startswith("a" * 200)
    assert cut.endswith("z" * 100)
    assert "700 characters left out" in cut
