"""What workers say is recorded once, from whom we asked, about what we asked."""

from __future__ import annotations

import dataclasses

import pytest
from django.utils import timezone

from tests.webapp.verdicts import BUILT, answer, fresh, verdict
from webapp.evaluations.attempts import withdraw
from webapp.evaluations.models import Evaluation, EvaluationState, Job, JobState
from webapp.evaluations.recording import Outcome, record_answer, record_pulse
from webapp.evaluations.services import request_evaluation
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildResult, BuildStatus, JobPulse
from workers.protocol.verdict import Ratio, Status

FILES = {"model_new.py": b"class ModelNew: pass\n", "kernels/k.cpp": b"int x;\n"}
ALL = (Stage.BUILD, Stage.VERIFY, Stage.TIME)
FASTER = Ratio(2.0, 1.9, 2.1, 8)


@pytest.fixture
def evaluation(problem) -> Evaluation:
    return request_evaluation(problem, FILES, ALL)


@pytest.fixture
def job(evaluation) -> Job:
    return fresh(Job.objects.get(evaluation=evaluation))


def pulse(job: Job, **changes: object) -> JobPulse:
    sent = answer(job, BUILT)
    given = {"job": sent.job, "attempt": sent.attempt, "fence": sent.fence, "token": sent.token}
    return JobPulse(**{**given, "worker": "w-1", **changes})


def test_a_request_hints_at_its_row(evaluation, job, hints):
    (hint,) = hints("build")
    assert (hint.job, hint.attempt, hint.fence) == (str(job.pk), 1, 1)
    assert hint.request == evaluation.request
    assert fresh(job).hints == 1


def test_a_build_leads_to_the_device_and_the_device_to_a_verdict(evaluation, job, hints):
    assert record_answer(answer(job, BUILT)) is Outcome.RECORDED
    device = fresh(Job.objects.get(evaluation=evaluation, kind="device"))
    (hint,) = hints("device.cpu")
    assert hint.build == BUILT
    evaluation.refresh_from_db()
    assert not evaluation.over
    result = verdict(evaluation.request, speedup=FASTER)
    assert record_answer(answer(device, result)) is Outcome.RECORDED
    evaluation.refresh_from_db()
    assert evaluation.state == EvaluationState.DONE
    assert (evaluation.status, evaluation.speedup_median) == ("passed", 2.0)
    assert evaluation.verdict.artifacts == {"library": "a" * 64}
    assert evaluation.verdict.durations_ms == {"build": 500.0}


def test_a_failed_build_is_a_verdict(evaluation, job):
    failed = BuildResult(BuildStatus.COMPILE_ERROR, "k.cpp does not compile.")
    record_answer(answer(job, failed))
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("done", "compile_error")
    assert evaluation.summary == "k.cpp does not compile."
    assert not Job.objects.filter(kind="device").exists()


def test_the_compile_tool_ends_with_the_build(problem):
    evaluation = request_evaluation(problem, FILES, (Stage.BUILD,))
    record_answer(answer(fresh(evaluation.jobs.get()), BUILT))
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("done", "passed")


def test_it_refuses_a_wrong_token(evaluation, job):
    assert record_answer(answer(job, BUILT, token="0" * 64)) is Outcome.FORGED
    assert fresh(job).state == JobState.QUEUED


def test_it_refuses_the_token_of_another_job(problem, job):
    other = request_evaluation(problem, FILES, ALL).jobs.get()
    stolen = answer(fresh(other), BUILT).token
    assert record_answer(answer(job, BUILT, token=stolen)) is Outcome.FORGED


def test_it_refuses_an_old_fence(evaluation, job):
    late = answer(job, BUILT)
    Job.objects.filter(pk=job.pk).update(attempt=2, fence=2)
    assert record_answer(late) is Outcome.STALE
    assert fresh(job).state == JobState.QUEUED
    assert record_answer(dataclasses.replace(late, fence=2)) is Outcome.FORGED


def test_the_first_valid_answer_wins(evaluation, job):
    failed = BuildResult(BuildStatus.COMPILE_ERROR, "No.")
    assert record_answer(answer(job, failed)) is Outcome.RECORDED
    assert record_answer(answer(job, BUILT)) is Outcome.STALE
    evaluation.refresh_from_db()
    assert evaluation.status == "compile_error"


@pytest.mark.parametrize("name", ["nobody", "00000000-0000-0000-0000-000000000000"])
def test_it_ignores_an_answer_to_nothing(job, name):
    assert record_answer(answer(job, BUILT, job=name)) is Outcome.STALE


def test_an_answer_that_cannot_be_read_costs_the_attempt(evaluation, job, hints):
    hints("build")
    assert record_answer(answer(job, BUILT, result="f" * 64)) is Outcome.UNUSABLE
    assert (fresh(job).state, fresh(job).attempt, fresh(job).fence) == (JobState.QUEUED, 2, 2)
    assert [hint.attempt for hint in hints("build")] == [2]


@pytest.mark.parametrize("field", ["snapshot", "problem"])
def test_it_refuses_a_verdict_about_something_else(evaluation, job, field):
    record_answer(answer(job, BUILT))
    device = fresh(Job.objects.get(evaluation=evaluation, kind="device"))
    result = verdict(evaluation.request, speedup=FASTER)
    other = dataclasses.replace(result, **{field: "e" * 64})
    assert record_answer(answer(device, other)) is Outcome.UNUSABLE
    evaluation.refresh_from_db()
    assert not evaluation.over


def test_no_worker_can_certify(evaluation, job):
    record_answer(answer(job, BUILT))
    device = fresh(Job.objects.get(evaluation=evaluation, kind="device"))
    result = dataclasses.replace(verdict(evaluation.request, speedup=FASTER), certified=True)
    assert record_answer(answer(device, result)) is Outcome.UNUSABLE


def test_a_fault_of_ours_is_tried_again_and_then_said(evaluation, job):
    broken = BuildResult(BuildStatus.INFRASTRUCTURE, "No sandbox here.")
    for attempt in (1, 2, 3):
        assert fresh(job).attempt == attempt
        assert record_answer(answer(fresh(job), broken)) is Outcome.RECORDED
    evaluation.refresh_from_db()
    assert (evaluation.status, evaluation.summary) == ("infrastructure", "No sandbox here.")


def test_a_sign_of_life_begins_a_job_and_prolongs_it(evaluation, job):
    assert record_pulse(pulse(job)) is Outcome.RECORDED
    begun = fresh(job)
    assert (begun.state, begun.worker) == (JobState.RUNNING, "w-1")
    evaluation.refresh_from_db()
    assert evaluation.state == EvaluationState.BUILDING
    Job.objects.filter(pk=job.pk).update(deadline=timezone.now())
    assert record_pulse(pulse(job)) is Outcome.RECORDED
    assert fresh(job).deadline > timezone.now()
    assert record_pulse(pulse(job, worker="w-2")) is Outcome.STALE
    assert record_pulse(pulse(job, token="no")) is Outcome.FORGED


def test_a_verdict_of_every_status_can_be_kept(problem):
    for status in Status:
        if status in (Status.REJECTED, Status.INFRASTRUCTURE):
            continue
        evaluation = request_evaluation(problem, FILES, (Stage.BUILD, Stage.VERIFY))
        record_answer(answer(fresh(evaluation.jobs.get()), BUILT))
        device = fresh(evaluation.jobs.get(kind="device"))
        record_answer(answer(device, verdict(evaluation.request, status)))
        evaluation.refresh_from_db()
        assert evaluation.status == status.value


def test_a_withdrawn_question_leads_nowhere(evaluation, job, hints):
    assert withdraw(evaluation.pk)
    assert not withdraw(evaluation.pk)
    assert record_answer(answer(job, BUILT)) is Outcome.STALE
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("lost", "infrastructure")
    assert not Job.objects.filter(kind="device").exists()
