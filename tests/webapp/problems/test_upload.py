"""Uploads are checked without running them; what is wrong is said in one sentence."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import MODEL
from tests.webapp.problems.uploads import REFUSALS
from webapp.common.errors import UserError
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Evaluation, Job
from webapp.problems.models import Problem, ProblemState
from webapp.problems.queries import files_of, visible_to
from webapp.problems.services import create_problem, record_admission


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


ACCEPTED = {
    "another name": MODEL.replace(b"class Model", b"class Net") + b"Model = Net\n",
    "an import": MODEL.replace(b"class Model", b"class Net") + b"from net import Model\n",
    "under if": MODEL.replace(b"class Model", b"if True:\n  class Model")
    .replace(b"  def forward", b"    def forward")
    .replace(b"    return x", b"      return x"),
    "lambdas": MODEL.replace(
        b"def get_init_inputs():\n    return []", b"get_init_inputs = lambda: []"
    ),
    "forward by assignment": MODEL.replace(
        b"def forward(self, x):\n        return x * 2", b"forward = f"
    ),
    "an inherited forward": MODEL.replace(b"def forward", b"def other").replace(
        b"(torch.nn.Module)", b"(layers.Base)"
    ),
    "a form feed": b"\x0c" + MODEL,
    "names of all scripts": MODEL + "größe = длина = 幅 = 2  # 😀 é\n".encode(),
    "a declared encoding": b"# -*- coding: utf-8 -*-\n" + MODEL,
    "carriage returns alone": MODEL.replace(b"\n", b"\r"),
    "no newline at the end": MODEL.rstrip(),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_takes_every_way_to_write_a_model(name, people):
    problem = upload_problem(people.team, people.owner, {"model.py": ACCEPTED[name]})
    assert problem.state == ProblemState.CHECKING
    assert files_of(problem)["model.py"].endswith(b"\n")


def test_a_spec_in_every_form_of_text_is_read(people):
    spec = b"\xef\xbb\xbftitle = 'Gr\xc3\xb6\xc3\x9fe'\r\nprecision = 'tf32'\r\n"
    problem = upload_problem(people.team, people.owner, {"model.py": MODEL, "problem.toml": spec})
    assert (problem.title, problem.spec.precision) == ("Größe", "tf32")
