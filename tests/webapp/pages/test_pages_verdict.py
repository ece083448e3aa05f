"""The page of a verdict."""

from __future__ import annotations

import json
import re

from tests.webapp.pages.conftest import (
    ALL_STAGES,
    CLAIM,
    COMPILER,
    FILES,
    REJECTING,
    Clients,
    MakeVerdict,
    correctness,
)
from webapp.evaluations.models import Baseline
from webapp.evaluations.services import request_evaluation
from webapp.problems.models import Problem
from webapp.studio.models import Session
from workers.protocol.verdict import Status


def shown(clients: Clients, evaluation: object) -> str:
    answer = clients.owner.get(evaluation.get_absolute_url())  # type: ignore[attr-defined]
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_passed_verdict_shows_all_its_numbers(clients: Clients, judged: MakeVerdict) -> None:
    page = shown(clients, judged())
    for text in (
        "2.50×",  # noqa: RUF001
        "2.40 to 2.60, 95 % from 24 pairs: faster",
        "5.00 ms",
        "2.00 ms",
        "12.5 ms",
        "2.00 KiB",
        "94 %",
        "1.0e-08",
        "4 calls compared",
        "Claimed by the candidate",
        "Test CPU",
        "bubblewrap",
        "not certified",
        "it is no proof for every input",
        'data-path="kernels/double.cpp"',
    ):
        assert text in page, text


def test_the_raw_blocks_and_their_lines_are_given(clients: Clients, judged: MakeVerdict) -> None:
    page = shown(clients, judged())
    found = re.search(
        r'<script id="blocks-data" type="application/json">(.*?)</script>', page, re.S
    )
    assert found is not None
    arms = {arm["arm"]: arm for arm in json.loads(found.group(1))}
    assert arms["eager"]["slope"] == 5.0
    assert round(arms["candidate"]["intercept"], 6) == 0.1
    assert len(arms["candidate"]["blocks"]) == 2
    assert "35.1 ms" in page  # the same numbers as a table


def test_torch_compile_follows_and_is_said_to_be_derived(
    clients: Clients, judged: MakeVerdict, problem: Problem
) -> None:
    evaluation = judged()
    assert "not measured" in shown(clients, evaluation)
    Baseline.objects.create(
        problem=problem,
        evaluation=judged(Status.UNMEASURED),
        device_name=evaluation.device_name,
        torch_version=evaluation.torch_version,
        precision=evaluation.precision,
        ratio_median=1.25,
        ratio_low=1.2,
        ratio_high=1.3,
        pairs=10,
    )
    page = shown(clients, evaluation)
    assert "2.00×" in page  # noqa: RUF001
    assert "1.85 to 2.17, from two paired ratios: faster" in page


def test_an_incorrect_verdict_names_the_first_difference(
    clients: Clients, judged: MakeVerdict
) -> None:
    page = shown(clients, judged(Status.INCORRECT, correctness=correctness(passed=False)))
    assert "Incorrect" in page
    assert "[3, 4]" in page
    assert "nothing was timed" not in page
    assert "One difference is enough to fail" in page


def test_a_rejected_verdict_shows_rule_and_evidence(clients: Clients, judged: MakeVerdict) -> None:
    page = shown(clients, judged(Status.REJECTED, findings=(REJECTING, CLAIM)))
    assert "Rejected" in page
    assert "all equal" in page
    assert "authorship" in page
    assert page.count("Claimed by the candidate") == 1


def test_a_compile_error_leads_to_its_line(clients: Clients, judged: MakeVerdict) -> None:
    page = shown(clients, judged(Status.COMPILE_ERROR, diagnostics=(COMPILER,)))
    assert 'href="#kernels-double-cpp-2"' in page
    assert "kernels/double.cpp:2:14" in page
    assert 'id="kernels-double-cpp-2" data-severity="error"' in page
    assert "expected &#x27;;&#x27;" in page


def test_every_status_has_a_page(clients: Clients, judged: MakeVerdict) -> None:
    for status in Status:
        parts = {"findings": (REJECTING,)} if status is Status.REJECTED else {}
        assert f"It is {status}." in shown(clients, judged(status, **parts))


def test_a_verdict_that_is_not_there_yet_is_waited_for(clients: Clients, problem: Problem) -> None:
    page = shown(clients, request_evaluation(problem, FILES, ALL_STAGES))
    assert "data-waiting" in page
    assert "The judge is at work" in page


def test_it_leads_back_to_the_session(clients: Clients, session: Session) -> None:
    assert f'href="{session.get_absolute_url()}"' in shown(clients, session.best_evaluation)


def test_files_that_are_gone_do_not_break_the_page(
    clients: Clients, judged: MakeVerdict, settings: object, tmp_path: object
) -> None:
    evaluation = judged()
    settings.ARTIFACTS = tmp_path / "elsewhere"  # type: ignore[attr-defined,operator]
    assert "2.50×" in shown(clients, evaluation)  # noqa: RUF001
