"""The judge's look at a problem opens or refuses it; then torch.compile's ratio follows in the background."""

from __future__ import annotations

import dataclasses

import pytest

from tests.webapp.conftest import MODEL
from tests.webapp.verdicts import BUILT, answer, baseline, fresh, verdict
from webapp.evaluations.admission import upload_problem
from webapp.evaluations.models import Baseline, Evaluation, Job, JobState
from webapp.evaluations.queries import (
    baseline_pending,
    inspection_of,
    speedup_compile,
    speedup_eager,
)
from webapp.evaluations.recording import record_answer
from webapp.evaluations.services import request_evaluation
from webapp.problems.models import ProblemState
from workers.protocol.inspection import Inspection
from workers.protocol.problem import Stage
from workers.protocol.verdict import Ratio, Status

FILES = {"model_new.py": b"class ModelNew: pass\n"}
ALL = (Stage.BUILD, Stage.VERIFY, Stage.TIME)


@pytest.fixture
def uploaded(people):
    return upload_problem(people.team, people.owner, {"model.py": MODEL})


def settle_with(problem, **changes: object) -> None:
    evaluation = Evaluation.objects.get(problem=problem, stages=["inspect"])
    result = dataclasses.replace(verdict(evaluation.request), **changes)
    record_answer(answer(fresh(evaluation.jobs.get()), result))
    problem.refresh_from_db()


def measured(problem, speedup: Ratio) -> Evaluation:
    evaluation = request_evaluation(problem, FILES, ALL)
    record_answer(answer(fresh(evaluation.jobs.get()), BUILT))
    device = fresh(evaluation.jobs.get(kind="device"))
    record_answer(answer(device, verdict(evaluation.request, speedup=speedup)))
    evaluation.refresh_from_db()
    return evaluation


def test_a_problem_that_passes_is_ready_and_shows_its_inspection(uploaded):
    seen = Inspection((), (), (), "tensor", 100, 200)
    settle_with(uploaded, inspection=seen)
    assert uploaded.state == ProblemState.READY
    assert inspection_of(uploaded) == seen


def test_a_problem_that_fails_is_refused_with_the_judges_sentence(uploaded):
    settle_with(uploaded, status=Status.RUNTIME_ERROR, summary="forward raised ValueError.")
    assert (uploaded.state, uploaded.reason) == ("refused", "forward raised ValueError.")
    assert not Job.objects.filter(background=True).exists()


def test_the_baseline_is_asked_for_in_the_background(uploaded, hints):
    hints("device.cpu")
    settle_with(uploaded)
    job = Job.objects.get(background=True)
    assert (job.state, job.evaluation.stages) == (JobState.IDLE, ["baseline"])
    assert hints("device.cpu") == []
    assert baseline_pending(uploaded)


def test_the_speedup_against_compile_combines_intervals_conservatively(uploaded):
    settle_with(uploaded)
    evaluation = measured(uploaded, Ratio(4.0, 3.6, 4.4, 9))
    assert speedup_eager(evaluation) == Ratio(4.0, 3.6, 4.4, 9)
    assert speedup_compile(evaluation) is None
    job = fresh(Job.objects.get(background=True))
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    result = baseline(job.evaluation.request, Ratio(2.0, 1.8, 2.2, 5))
    record_answer(answer(job, result))
    combined = speedup_compile(evaluation)
    assert combined.median == pytest.approx(2.0)
    assert combined.low == pytest.approx(3.6 / 2.2)
    assert combined.high == pytest.approx(4.4 / 1.8)
    assert combined.pairs == 5
    assert not baseline_pending(uploaded)


@pytest.mark.parametrize(
    "other", [{"device_name": "another"}, {"torch_version": "2.10"}, {"precision": "bf16"}]
)
def test_a_ratio_from_elsewhere_says_nothing(uploaded, other):
    settle_with(uploaded)
    evaluation = measured(uploaded, Ratio(4.0, 3.6, 4.4, 9))
    row = {"device_name": "Test CPU", "torch_version": "2.13.0", "precision": "ieee", **other}
    Baseline.objects.create(
        problem=uploaded,
        evaluation=Evaluation.objects.get(stages=["baseline"]),
        ratio_median=2.0,
        ratio_low=1.8,
        ratio_high=2.2,
        pairs=5,
        **row,
    )
    assert speedup_compile(evaluation) is None
