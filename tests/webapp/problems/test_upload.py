"""Uploads are checked without running them; what is wrong is said in one sentence."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import MODEL
from webapp.common.errors import UserError
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Evaluation, Job
from webapp.problems.models import Problem, ProblemState
from webapp.problems.queries import files_of, visible_to
from webapp.problems.services import create_problem, record_admission

REFUSALS = {
    "nothing": ({}, "model.py is missing"),
    "empty": ({"model.py": b"  \n"}, "model.py is missing"),
    "other file": ({"model.py": MODEL, "setup.py": b""}, "setup.py cannot be uploaded"),
    "syntax": ({"model.py": b"class Model(:\n"}, "model.py line 1"),
    "no Model": ({"model.py": b"x = 1\n"}, "no class Model"),
    "nested Model": ({"model.py": b"def f():\n    class Model: pass\n"}, "no class Model"),
    "no forward": (
        {"model.py": MODEL.replace(b"def forward", b"def backward")},
        "no method forward",
    ),
    "no get_inputs": ({"model.py": MODEL.replace(b"get_inputs", b"inputs")}, "get_inputs()"),
    "no get_init_inputs": (
        {"model.py": MODEL.replace(b"get_init_inputs", b"init")},
        "get_init_inputs()",
    ),
    "latin-1": ({"model.py": MODEL + "# caf\xe9".encode("latin-1")}, "not UTF-8 text (line 17)"),
    "binary": ({"model.py": MODEL + b"\0"}, "NUL"),
    "too large": ({"model.py": MODEL + b"#" * (256 << 10)}, "262,144 are allowed"),
    "deep": ({"model.py": MODEL + b"x = " + b"(" * 5000 + b")" * 5000}, "model.py"),
    "toml syntax": ({"model.py": MODEL, "problem.toml": b"threads = "}, "problem.toml"),
    "toml field": ({"model.py": MODEL, "problem.toml": b"theads = 2\n"}, "unknown field 'theads'"),
    "toml value": ({"model.py": MODEL, "problem.toml": b"threads = 0\n"}, "between 1 and 256"),
    "target": ({"model.py": MODEL, "problem.toml": b'target = "cuda"\n'}, "no cuda worker"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_it_refuses_a_bad_upload_in_one_sentence_and_keeps_nothing(name, people):
    files, expected = REFUSALS[name]
    with pytest.raises(UserError) as refusal:
        upload_problem(people.team, people.owner, files)
    sentence = refusal.value.sentence
    assert expected in sentence
    assert "\n" not in sentence
    assert not Problem.objects.exists()


def test_it_stores_an_upload_and_asks_the_judge(people):
    problem = upload_problem(people.team, people.owner, {"model.py": MODEL})
    assert problem.state == ProblemState.CHECKING
    assert problem.title == "Doubles its input"
    assert files_of(problem) == {"model.py": MODEL}
    evaluation = Evaluation.objects.get(problem=problem)
    assert evaluation.stages == ["inspect"]
    assert Job.objects.get(evaluation=evaluation).queue == "device.cpu"


def test_it_does_not_run_a_line_of_the_upload(people, tmp_path):
    trap = tmp_path / "trap"
    code = f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n".encode()
    upload_problem(people.team, people.owner, {"model.py": code + MODEL})
    assert not trap.exists()


def test_it_drops_a_byte_order_mark_and_carriage_returns(people):
    odd = b"\xef\xbb\xbf" + MODEL.replace(b"\n", b"\r\n")
    one = create_problem(people.team, people.owner, {"model.py": odd})
    other = create_problem(people.team, people.owner, {"model.py": MODEL})
    assert one.pk == other.pk


def test_the_same_files_give_the_problem_that_exists(people):
    files = {"model.py": MODEL}
    one = upload_problem(people.team, people.owner, files, "First")
    other = upload_problem(people.team, people.colleague, files, "Second")
    assert one.pk == other.pk
    assert other.title == "First"
    assert Evaluation.objects.count() == 1


def test_a_refused_problem_is_checked_again_when_it_is_uploaded_again(people):
    files = {"model.py": MODEL}
    one = upload_problem(people.team, people.owner, files)
    Evaluation.objects.update(state="done", status="rejected")
    assert record_admission(one.pk, False, "It is random.")
    again = upload_problem(people.team, people.owner, files)
    assert (again.pk, again.state, again.reason) == (one.pk, ProblemState.CHECKING, "")
    assert Evaluation.objects.count() == 2


def test_two_teams_may_upload_the_same_files_and_see_their_own(people):
    files = {"model.py": MODEL}
    theirs = people.stranger.teams.get()
    one = create_problem(people.team, people.owner, files)
    other = create_problem(theirs, people.stranger, files)
    assert one.pk != other.pk
    assert list(visible_to(people.colleague)) == [one]
    assert list(visible_to(people.stranger)) == [other]


def test_equal_titles_get_different_slugs(people):
    one = create_problem(people.team, people.owner, {"model.py": MODEL}, "GELU")
    other = create_problem(people.team, people.owner, {"model.py": MODEL + b"# 2\n"}, "GELU")
    assert (one.slug, other.slug) == ("gelu", "gelu-2")


def test_a_stranger_cannot_upload_to_a_team(people):
    with pytest.raises(UserError, match="not a member"):
        create_problem(people.team, people.stranger, {"model.py": MODEL})
