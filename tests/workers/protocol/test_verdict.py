"""A verdict cannot be built in a form that would mislead."""

from __future__ import annotations

import dataclasses

import pytest

from tests.workers.protocol.messages import MESSAGES
from workers.protocol.codec import ProtocolError
from workers.protocol.diagnostics import Finding
from workers.protocol.verdict import Evaluation, Ratio, Status

TIMED = MESSAGES["timed_evaluation"]
assert isinstance(TIMED, Evaluation)
REJECTING = Finding("late_write", "An output changed after it was returned.", rejects=True)


@pytest.mark.parametrize(
    "status", [status for status in Status if status not in (Status.PASSED, Status.REJECTED)]
)
def test_only_a_passed_or_rejected_verdict_holds_a_timing(status: Status):
    with pytest.raises(ProtocolError, match="may not hold a timing"):
        dataclasses.replace(TIMED, status=status, held=False)


def test_a_rejected_verdict_names_the_finding_that_rejects():
    with pytest.raises(ProtocolError, match="needs the finding"):
        dataclasses.replace(TIMED, status=Status.REJECTED, held=False)


def test_a_passed_verdict_holds_no_rejecting_finding():
    with pytest.raises(ProtocolError, match="may not hold a rejecting finding"):
        dataclasses.replace(TIMED, findings=(REJECTING,))


def test_a_passed_verdict_that_was_to_be_timed_has_a_timing():
    with pytest.raises(ProtocolError, match="needs a timing"):
        dataclasses.replace(TIMED, timing=None)


def test_only_a_passed_verdict_can_be_held():
    with pytest.raises(ProtocolError, match="can be held"):
        dataclasses.replace(TIMED, status=Status.REJECTED, findings=(REJECTING,))


@pytest.mark.parametrize("bounds", [(0, 1, 2), (1.5, 1, 2), (0.5, 3, 2), (-1, 1, 2)])
def test_it_refuses_an_interval_that_does_not_hold_its_median(bounds: tuple[float, float, float]):
    low, median, high = bounds
    with pytest.raises(ProtocolError, match="0 < low <= median <= high"):
        Ratio(median, low, high, 3)
