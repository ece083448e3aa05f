"""A check does not wait for torch.compile of another problem, and that is not starved by it."""

from __future__ import annotations

import time

import pytest

from tests.faults.living_site import MODEL, eventually

pytestmark = pytest.mark.slow

HANDED_BACK_S = 5.0
"""Timing torch.compile would hold the device for half a minute."""

BASELINE = (
    "SELECT j.state, j.returns, j.failures FROM evaluations_job j JOIN evaluations_evaluation e"
    " ON e.id = j.evaluation_id WHERE j.background AND e.problem_id = ?"
)


def test_an_upload_interrupts_the_baseline_of_another(site):
    first = site.upload("First", {"model.py": MODEL})
    key = first.replace("-", "")
    eventually("its baseline runs", lambda: site.rows(BASELINE, key)[0][0] == "running", 90)
    time.sleep(2)
    asked = time.monotonic()
    second = site.tell("problems", {"title": "Second", "files": {"model.py": MODEL + "# 2\n"}})
    eventually("the baseline is handed back", lambda: site.rows(BASELINE, key)[0][1] == 1, 30)
    assert time.monotonic() - asked < HANDED_BACK_S
    site.wait_until_ready(str(second["id"]))
    assert site.rows(BASELINE, key)[0] == ("idle", 1, 0)
    # Two seconds of quiet are enough where somebody looks forward to it, twenty where nobody does.
    eventually("it is tried again", lambda: site.rows(BASELINE, key)[0][0] == "running", 90)
