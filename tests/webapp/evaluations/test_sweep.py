"""The sweeper makes up for lost hints, lost answers and lost workers."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.webapp.verdicts import BUILT, answer, fresh, leave
from webapp.common.artifacts import alive_folder
from webapp.evaluations.attempts import MAX_RETURNS
from webapp.evaluations.models import Job, JobState
from webapp.evaluations.recording import Outcome, record_answer
from webapp.evaluations.services import request_evaluation
from webapp.evaluations.sweep import NOBODY, extend_deadlines, start_background_jobs, sweep
from workers.evaluation.verdicts import infrastructure
from workers.presence import Presence
from workers.protocol.problem import Stage
from workers.protocol.requests import BuildResult, BuildStatus, JobReturn

REPOSITORY = Path(__file__).resolve().parents[3]
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
    set_job(job, queued_at=timezone.now() - NOBODY - timedelta(seconds=1))
    sweep(messages_flow=True)
    evaluation.refresh_from_db()
    assert evaluation.status == "infrastructure"
    assert "no worker took it from the queue build" in evaluation.summary


class TestDeadWorkers:
    """Their end is known from a lock, without waiting for silence."""

    @pytest.fixture
    def dead(self) -> str:
        name = "host-1-dead"
        code = (
            "import os, signal, sys\n"
            "from pathlib import Path\n"
            "from workers.presence import Presence\n"
            "presence = Presence(Path(sys.argv[1]), sys.argv[2])\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        command = [sys.executable, "-c", code, str(alive_folder()), name]
        assert subprocess.run(command, cwd=REPOSITORY).returncode == -signal.SIGKILL
        return name

    @pytest.mark.parametrize("messages_flow", [True, False])
    def test_their_jobs_go_to_another_at_once(self, job, hints, dead, messages_flow):
        set_job(job, state=JobState.RUNNING, deadline=ago(-50), worker=dead)
        sweep(messages_flow=messages_flow)
        again = fresh(job)
        assert (again.state, again.attempt, again.losses, again.worker) == ("queued", 2, 1, "")
        assert [hint.attempt for hint in hints("build")] == [2]

    def test_what_they_left_in_their_last_moment_counts(self, evaluation, job, dead):
        leave(set_job(job, state=JobState.RUNNING, deadline=ago(-50), worker=dead), BUILT)
        sweep(messages_flow=True)
        assert fresh(job).state == JobState.ANSWERED

    def test_a_living_one_keeps_its_job(self, job):
        presence = Presence(alive_folder(), "host-2-alive")
        set_job(job, state=JobState.RUNNING, deadline=ago(-50), worker=presence.name)
        sweep(messages_flow=True)
        assert fresh(job).state == JobState.RUNNING
        presence.leave()

    def test_two_of_them_convict_a_snapshot(self, evaluation, device_job, dead):
        for _ in range(2):
            set_job(device_job, state=JobState.RUNNING, deadline=ago(-50), worker=dead)
            sweep(messages_flow=True)
        evaluation.refresh_from_db()
        assert (evaluation.state, evaluation.status) == ("done", "runtime_error")

    def test_but_not_when_they_died_together_with_the_site(self, evaluation, device_job, dead):
        for _ in range(5):
            set_job(device_job, state=JobState.RUNNING, deadline=ago(-50), worker=dead)
            sweep(messages_flow=True, begins=True)
        again = fresh(device_job)
        assert (again.state, again.attempt, again.failures, again.returns) == ("queued", 6, 0, 5)
        evaluation.refresh_from_db()
        assert evaluation.state == "pending"

    def test_one_loss_and_one_fault_of_the_judge_convict_nobody(self, evaluation, device_job, dead):
        set_job(device_job, state=JobState.RUNNING, deadline=ago(-50), worker=dead)
        sweep(messages_flow=True)
        again = fresh(device_job)
        record_answer(answer(again, infrastructure(evaluation.request, "The judge ended.")))
        evaluation.refresh_from_db()
        assert evaluation.status == "infrastructure"


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

    def test_it_gives_way(self, background, hints):
        start_background_jobs(sessions_run=False, wanted=set())
        assert [hint.gives_way for hint in hints("device.cpu")] == [True]

    def test_it_goes_at_last_on_a_site_that_is_never_quiet_and_no_longer_gives_way(
        self, background, device_job, hints
    ):
        set_job(background, created_at=ago(3600))
        assert start_background_jobs(sessions_run=True, wanted=set()) == 1
        assert [hint.gives_way for hint in hints("device.cpu")] == [False]
        sweep(messages_flow=True)
        assert fresh(background).state == JobState.QUEUED

    def test_an_old_one_still_gives_way_where_all_is_quiet(self, background, hints):
        set_job(background, created_at=ago(3600))
        start_background_jobs(sessions_run=False, wanted=set())
        assert [hint.gives_way for hint in hints("device.cpu")] == [True]

    def test_a_busy_site_has_a_rest_between_two_of_them(self, problem, background):
        other = request_evaluation(problem, None, (Stage.BASELINE,), background=True)
        for job in (background, other.jobs.get()):
            set_job(job, created_at=ago(3600))
        assert start_background_jobs(sessions_run=True, wanted=set()) == 1
        assert start_background_jobs(sessions_run=True, wanted=set()) == 0
        set_job(background, state=JobState.ANSWERED, finished_at=ago(60))
        assert start_background_jobs(sessions_run=True, wanted=set()) == 0
        set_job(background, finished_at=ago(301))
        assert start_background_jobs(sessions_run=True, wanted=set()) == 1

    def test_what_was_handed_back_waits_again_and_has_not_failed(self, background, hints):
        for number in range(1, 6):
            assert start_background_jobs(sessions_run=False, wanted=set()) == 1
            (hint,) = hints("device.cpu")
            assert hint.attempt == number
            set_job(background, state=JobState.RUNNING, deadline=ago(-50), worker="w-1")
            given = answer(fresh(background), JobReturn("Somebody waits."))
            assert record_answer(given) is Outcome.RETURNED
            again = fresh(background)
            assert (again.state, again.attempt, again.failures) == ("idle", number + 1, 0)
            assert again.evaluation.state == "pending"
            assert record_answer(given) is Outcome.STALE

    def test_it_is_found_when_the_message_was_lost(self, background):
        leave(set_job(background, state=JobState.RUNNING, deadline=ago(-50)), JobReturn("Waits."))
        sweep(messages_flow=True)
        assert (fresh(background).state, fresh(background).returns) == ("idle", 1)

    def test_what_is_handed_back_without_end_has_failed_at_last(self, background):
        set_job(background, state=JobState.RUNNING, returns=MAX_RETURNS, failures=2)
        record_answer(answer(fresh(background), JobReturn("Not now.")))
        assert fresh(background).state == JobState.GIVEN_UP
        assert "Not now." in fresh(background).evaluation.summary

    def test_only_one_at_a_time_goes_to_a_queue(self, problem, background):
        request_evaluation(problem, None, (Stage.BASELINE,), background=True)
        assert start_background_jobs(sessions_run=False, wanted=set()) == 1
        assert start_background_jobs(sessions_run=False, wanted=set()) == 0
