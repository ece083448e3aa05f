"""The built-in author: what it says and tries, and that it can be taken up anywhere."""

from __future__ import annotations

import dataclasses

import pytest

from agent.author import Ending, Task
from agent.authors import make_author
from agent.codegen.search import MOVES, Trial, propose
from agent.codegen.variant import Variant
from agent.control import Uncontrolled
from agent.errors import UnknownAuthor
from agent.loop import run
from agent.session import SessionInput, SessionState
from workers.protocol.codec import from_json, to_json
from workers.protocol.problem import Target
from workers.protocol.transcript import TranscriptEntry
from workers.protocol.verdict import Ratio, Status

BODY = "r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)\nreturn F.silu(x * r) * self.w"
INPUTS = {"x": "torch.randn(64, 96)"}
INIT = "self.w = nn.Parameter(torch.ones(96))"


@pytest.fixture
def loaded(reference, make_model):
    return reference(make_model(BODY, INPUTS, INIT))


@pytest.fixture
def problem(loaded):
    return {"model.py": loaded.source.encode(), "problem.toml": b"threads = 1\n"}


def graded(make_verdict):
    """Streaming stores win, everything else makes no difference."""

    def grade(files):
        text = b"".join(files[path] for path in sorted(files) if path.endswith(".cpp"))
        return make_verdict(speedup=2.5 if b"stream_out" in text else 2.0)

    return grade


async def play(session, evaluator, notebook, author=None):
    author = author or make_author("codegen")
    return await run(session, author, evaluator, notebook, Uncontrolled())


async def test_it_looks_first_measures_at_once_and_keeps_what_is_fastest(
    problem, loaded, notebook, make_examiner, make_verdict
):
    examiner = make_examiner(graded(make_verdict), loaded.inspection)
    result = await play(SessionInput(problem), examiner, notebook)
    assert result.state is SessionState.FINISHED
    assert "2.50x" in result.reason
    assert result.best is not None
    tools = [
        [call.tool for call in turn.entries[0].tool_calls if call.tool != "write"]
        for turn in notebook.turns
    ]
    assert tools[:2] == [["inspect"], ["profile"]]
    assert tools[-1] == []
    assert 5 <= len(tools) <= 10
    assert "one kernel" in notebook.turns[1].text
    assert "2.00x" in notebook.turns[2].text
    assert "".join(notebook.deltas).startswith(notebook.turns[0].text)
    # The workspace is left with the fastest files.
    assert b"stream_out" in b"".join(notebook.turns[-1].files.values())


async def test_it_says_truly_why_one_of_two_is_the_best(
    problem, loaded, notebook, make_examiner, make_verdict
):
    """The lower end of the interval decides, also where the other one's middle is higher."""
    plain = dataclasses.replace(make_verdict(speedup=2.5))
    wide = dataclasses.replace(plain.timing, speedup_eager=Ratio(2.5, 1.5, 3.5, 9))
    sure = dataclasses.replace(plain.timing, speedup_eager=Ratio(2.2, 2.1, 2.3, 9))
    answers = iter([wide, sure])
    examiner = make_examiner(
        lambda files: dataclasses.replace(plain, timing=next(answers, wide)), loaded.inspection
    )
    await play(SessionInput(problem), examiner, notebook)
    said = [turn.text for turn in notebook.turns]
    assert said[2].startswith("That gave 2.50x [1.50, 3.50], the best so far.")
    assert "2.20x [2.10, 2.30]. 2.50x was seen before, but less surely: at least 2.10x" in said[3]
    assert "2.20x [2.10, 2.30] stays the best by its lower end" in said[4]


async def test_it_goes_on_behind_any_finished_turn_as_if_nothing_had_happened(
    problem, loaded, notebook, make_examiner, make_verdict
):
    examiner = make_examiner(graded(make_verdict), loaded.inspection)
    whole = await play(SessionInput(problem), examiner, notebook)
    turns = notebook.turns
    for count in range(1, len(turns)):
        before = [to_json(entry) for turn in turns[:count] for entry in turn.entries]
        session = SessionInput(
            problem,
            transcript=tuple(from_json(TranscriptEntry, line) for line in before),
            workspace=turns[count - 1].files,
            best=turns[count - 1].best,
        )
        again = type(notebook)()
        result = await play(session, examiner, again)
        assert result.reason == whole.reason
        assert [turn.text for turn in again.turns] == [turn.text for turn in turns[count:]]
        assert [turn.snapshot for turn in again.turns] == [turn.snapshot for turn in turns[count:]]
        assert result.best.snapshot == whole.best.snapshot


async def test_a_recorded_session_can_be_played_again_without_its_author(
    problem, loaded, notebook, make_examiner, make_verdict
):
    examiner = make_examiner(graded(make_verdict), loaded.inspection)
    first = await play(SessionInput(problem), examiner, notebook)
    recording = [entry for turn in notebook.turns for entry in turn.entries]
    again = type(notebook)()
    author = make_author("scripted", recording)
    second = await play(SessionInput(problem), examiner, again, author)
    assert second.best.snapshot == first.best.snapshot
    assert second.state is SessionState.FINISHED


async def test_an_operator_without_a_generator_ends_the_session_with_its_name_and_place(
    reference, make_model, notebook, make_examiner, make_verdict
):
    other = reference(
        make_model(
            "return self.c(x)", {"x": "torch.randn(1, 3, 8, 8)"}, "self.c = nn.Conv2d(3, 4, 3)"
        )
    )
    examiner = make_examiner(graded(make_verdict), other.inspection)
    result = await play(SessionInput({"model.py": other.source.encode()}), examiner, notebook)
    assert result.state is SessionState.FAILED
    assert (
        result.reason == "codegen cannot write a kernel for aten.conv2d.default yet (model.py:10)."
    )


async def test_a_problem_that_cannot_be_inspected_ends_the_session_with_the_reason(
    problem, notebook, make_examiner, make_verdict
):
    examiner = make_examiner(graded(make_verdict), None)
    result = await play(SessionInput(problem), examiner, notebook)
    assert result.state is SessionState.FAILED
    assert "cannot be inspected: a summary" in result.reason


async def test_when_nothing_passes_it_gives_up_and_tells_the_last_verdict(
    problem, loaded, notebook, make_examiner, make_verdict
):
    examiner = make_examiner(
        lambda files: make_verdict(Status.INCORRECT, summary="Output 0 differs."), loaded.inspection
    )
    result = await play(SessionInput(problem), examiner, notebook)
    assert result.state is SessionState.FAILED
    assert result.reason.endswith("Output 0 differs.")
    assert len(notebook.turns) <= 6


async def test_a_busy_machine_is_asked_a_second_time(
    problem, loaded, notebook, make_examiner, make_verdict
):
    answers = iter([make_verdict(Status.UNMEASURED), make_verdict(speedup=1.5)])
    examiner = make_examiner(
        lambda files: next(answers, make_verdict(speedup=1.0)), loaded.inspection
    )
    result = await play(SessionInput(problem), examiner, notebook)
    assert result.best.turn == 3
    assert [call.tool for call in notebook.turns[2].entries[0].tool_calls] == ["profile"]


async def test_it_says_that_it_writes_for_the_cpu_only():
    async def nowhere(text):
        pass

    reply = await make_author("codegen").reply(Task({}, Target.CUDA), (), nowhere)
    assert reply.ending is Ending.GAVE_UP
    assert "cpu target only" in reply.text


def test_an_unknown_author_is_refused_with_the_known_names():
    with pytest.raises(UnknownAuthor, match="codegen, scripted"):
        make_author("gpt")


def test_the_search_never_measures_the_same_files_twice(make_verdict):
    def write(variant: Variant) -> dict[str, str]:
        # Only width and streaming make a difference to this kernel.
        return {"k.cpp": f"{variant.width} {variant.stream}"}

    trials: list[Trial] = []
    while (proposal := propose(trials, write)) is not None:
        assert proposal.files not in [trial.files for trial in trials]
        trials.append(Trial(proposal.variant, proposal.files, make_verdict(speedup=1.0)))
        assert len(trials) <= 1 + len(MOVES)
    assert len(trials) == 4
