"""`kill -9` of any process in the middle of a session: it goes on, and nothing is lost or doubled.

What each session is held to at its end is in `living_site.Session.end`.
"""

from __future__ import annotations

import time

import pytest

from tests.faults.living_site import MODEL, LivingSite, Session, eventually, session_on
from workers.sandbox.profiles import is_root

pytestmark = pytest.mark.slow

NOTICED_S = 5.0
"""How soon a dead worker's job must be another one's."""


def wait_until_measured(site: LivingSite, session: Session) -> int:
    """A candidate is being judged, in the turn behind the one that is returned."""
    session.wait_for_turns(1)
    while True:
        job = eventually("a candidate is measured", lambda: site.job("device"), 90)
        time.sleep(0.5)
        behind = session.turns
        if site.job("device") == job:
            return behind


def test_the_web_server(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        site.kill("web")
        session.goes_on(behind)


def test_the_recorder(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        site.kill("recorder")
        session.goes_on(behind)


def test_the_session_host(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        killed = time.monotonic()
        site.kill("session host")
        eventually("another host has it", lambda: "is gone" in session.said(), 30)
        # Its lease would have run for 15 s more.
        assert time.monotonic() - killed < 14
        session.goes_on(behind)
    assert f"goes on behind turn {behind}" in session.said()


def test_the_builder(site):
    # Of its own, so that nothing of it has been compiled before.
    problem = site.upload("Shifted", {"model.py": MODEL.replace("+ 1.0", "+ 1.25")})
    with session_on(site, problem) as session:
        session.wait_for_turns(1)
        job = eventually("a candidate is compiled", lambda: site.job("build"), 60)
        site.kill("builder")
        session.goes_on(1)
        (attempt, losses), *_ = site.rows(
            "SELECT attempt, losses FROM evaluations_job WHERE id = ?", job
        )
        assert (attempt, losses) == (2, 1)


def test_the_device_worker_is_missed_within_seconds(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        job = site.job("device")
        victim = site.part("device worker")
        attempt = "SELECT attempt, losses FROM evaluations_job WHERE id = ?"
        killed = time.monotonic()
        victim.kill()
        eventually("its job is another's", lambda: site.rows(attempt, job)[0] == (2, 1), 60)
        noticed = time.monotonic() - killed
        session.goes_on(behind)
    assert noticed < NOTICED_S
    assert [told["status"] for told in session.verdicts(behind + 1)] != ["runtime_error"]


def test_the_judge(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        job = site.job("device")
        judge = site.judge()
        judge.kill()
        session.goes_on(behind)
        assert not judge.alive
        failures = "SELECT failures, losses FROM evaluations_job WHERE id = ?"
        assert site.rows(failures, job) == [(1, 0)]
    told = session.verdicts(behind + 1)
    assert [body["status"] for body in told if body["status"] == "infrastructure"] == []


@pytest.mark.parametrize("identity", ["candidate", "reference"])
def test_a_runner(site, problem, identity):
    """The reference's end is ours, and tried again; so is a candidate's before its code was in it.

    Later a candidate's end is its own doing, as far as anybody can see.
    """
    with session_on(site, problem) as session:
        session.wait_for_turns(1)
        job = eventually("a candidate is measured", lambda: site.job("device"), 90)
        behind = session.turns
        runner = eventually("a runner stands", lambda: site.standing_runner(identity), 60)
        runner.kill()
        session.goes_on(behind)
        assert not runner.alive
        ((failures,),) = site.rows("SELECT failures FROM evaluations_job WHERE id = ?", job)
    summaries = [body["summary"] for body in session.verdicts(behind + 1)]
    told = {body["status"] for body in session.verdicts(behind + 1)}
    if failures:
        assert told <= {"passed", "unmeasured"}, summaries
    else:
        assert identity == "candidate" or not is_root()
        assert told <= {"runtime_error", "load_error"}, summaries


def test_redis(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        site.kill("redis")
        session.goes_on(behind)


def test_the_web_server_and_redis_at_once(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        site.kill("web", "redis")
        session.goes_on(behind)


def test_all_workers_at_once(site, problem):
    with session_on(site, problem) as session:
        behind = wait_until_measured(site, session)
        site.kill("recorder", "session host", "builder", "device worker")
        session.goes_on(behind)
