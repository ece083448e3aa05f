"""The sweeper makes up for lost hints, lost answers and lost workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.verdicts import BUILT, answer, fresh, leave
from webapp.evaluations.models import Job, JobState
from webapp.evaluations.recording import record_answer
from webapp.evaluations.services import request_evaluation
from webapp.evaluations.sweep import NOBODY, extend_deadlines, start_background_jobs, sweep
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildResult, BuildStatus

FILES = {"model_new.py": b"class ModelNew: pass\n"}
ALL = (Stage.BUILD, Stage.VERIFY, Stage.TIME)


def ago(seconds: float):
    return timezone.now() - timedelta(seconds=seconds)


def set_job(job: Job, **fields: object) -> Job:
    Job.objects.filter(pk=job.pk).update(**fields)
    return fresh(job)


@pytest.fixture
def evaluation(problem):
    return request_evaluation(problem, FILES, ALL)


@pytest.fixture
def job(evaluation, hints) -> Job:
    hints("build")
    return fresh(evaluation.jobs.get())


@pytest.fixture
def device_job(evaluation, job, hints) -> Job:
    record_answer(answer(job, BUILT))
    hints("device.cpu")
    return fresh(evaluation.jobs.get(kind="device"))


def test_it_finds_an_answer_whose_hint_was_lost(evaluation, job):
    leave(job, BuildResult(BuildStatus.COMPILE_ERROR, "No."))
    sweep(messages_flow=True)
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("done", "compile_error")


def test_it_finds_it_without_redis_too(evaluation, job):
    leave(set_job(job, state=JobState.RUNNING, deadline=ago(1)), BUILT)
    sweep(messages_flow=False)
    assert fresh(job).state == JobState.ANSWERED


def test_it_sends_a_lost_hint_again_with_the_same_token(job, hints):
    set_job(job, hinted_at=ago(11))
    sweep(messages_flow=True)
    (again,) = hints("build")
    assert (again.job, again.attempt) == (str(job.pk), 1)
    assert again.token == answer(job, BUILT).token


def test_it_does_not_repeat_a_hint_at_once_and_gets_more_patient(job, hints):
    sweep(messages_flow=True)
    set_job(job, hinted_at=ago(11), hints=2)
    sweep(messages_flow=True)
    assert hints("build") == []


def test_a_job_whose_worker_fell_silent_goes_to_another(job, hints):
    set_job(job, state=JobState.RUNNING, deadline=ago(1), worker="w-1", started_at=ago(70))
    sweep(messages_flow=True)
    again = fresh(job)
    assert (again.state, again.attempt, again.fence, again.worker) == ("queued", 2, 2, "")
    assert [hint.attempt for hint in hints("build")] == [2]


def test_silence_proves_nothing_while_messages_do_not_flow(job):
    set_job(job, state=JobState.RUNNING, deadline=ago(1))
    sweep(messages_flow=False)
    assert fresh(job).state == JobState.RUNNING
    assert fresh(job).deadline > timezone.now()


def test_a_sweeper_that_begins_gives_running_jobs_time(job):
    set_job(job, state=JobState.RUNNING, deadline=ago(500))
    extend_deadlines(timezone.now())
    sweep(messages_flow=True)
    assert fresh(job).attempt == 1


def test_a_snapshot_that_takes_two_device_workers_down_is_a_runtime_error(evaluation, device_job):
    for _ in range(2):
        set_job(device_job, state=JobState.RUNNING, deadline=ago(1))
        sweep(messages_flow=True)
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("done", "runtime_error")
    assert "2 device workers were lost" in evaluation.summary
    assert fresh(device_job).state == JobState.GIVEN_UP


def test_a_build_that_never_answers_is_our_fault(evaluation, job):
    for _ in range(3):
        set_job(job, state=JobState.RUNNING, deadline=ago(1))
        sweep(messages_flow=True)
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.status) == ("lost", "infrastructure")


def test_a_job_that_nobody_takes_is_given_up_with_a_hint_why(evaluation, job):
    set_job(job, created_at=timezone.now() - NOBODY - timedelta(seconds=1))
    sweep(messages_flow=True)
    evaluation.refresh_from_db()
    assert evaluation.status == "infrastructure"
    assert "no worker took it from the queue build" in evaluation.summary


class TestBackgroundJobs:
    @pytest.fixture
    def background(self, problem) -> Job:
        evaluation = request_evaluation(problem, None, (Stage.BASELINE,), background=True)
        return fresh(evaluation.jobs.get())

    def test_it_waits_at_first(self, background, hints):
        assert background.state == JobState.IDLE
        assert hints("device.cpu") == []

    def test_it_goes_when_all_is_quiet(self, background, hints):
        assert start_background_jobs(sessions_run=False, wanted=set()) == 1
        assert [hint.job for hint in hints("device.cpu")] == [str(background.pk)]

    def test_it_waits_while_a_session_runs(self, background, hints):
        assert (
            start_background_jobs(sessions_run=True, wanted={background.evaluation.problem_id}) == 0
        )
        assert hints("device.cpu") == []

    def test_it_waits_for_open_jobs(self, background, device_job, hints):
        assert start_background_jobs(sessions_run=False, wanted=set()) == 0

    def test_it_waits_until_the_device_was_quiet_for_a_while(self, background, device_job):
        wanted = {background.evaluation.problem_id}
        set_job(device_job, state=JobState.ANSWERED, finished_at=ago(5))
        assert start_background_jobs(sessions_run=False, wanted=set()) == 0
        assert start_background_jobs(sessions_run=False, wanted=wanted) == 1

    def test_it_goes_at_last_on_a_site_that_is_never_quiet(self, background):
        set_job(background, created_at=ago(3600))
        assert start_background_jobs(sessions_run=True, wanted=set()) == 1

    def test_only_one_at_a_time_goes_to_a_queue(self, problem, background):
        request_evaluation(problem, None, (Stage.BASELINE,), background=True)
        assert start_background_jobs(sessions_run=False, wanted=set()) == 1
        assert start_background_jobs(sessions_run=False, wanted=set()) == 0
