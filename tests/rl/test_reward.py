"""The milestone reward, by table."""

from __future__ import annotations

import pytest

from rl.reward import milestone_reward
from workers.protocol.diagnostics import Finding
from workers.protocol.problem import Precision, Stage, Target, Tier
from workers.protocol.verdict import ArmTiming, Evaluation, Ratio, Status, Timing

ARM = ArmTiming(per_call_ms=1.0, intercept_ms=0.1, single_ms=1.1, blocks=8)


def ratio(low: float) -> Ratio:
    return Ratio(median=low + 0.01, low=low, high=low + 0.02, pairs=9)


def verdict(
    eager: float | None, compiled: float | None = None, *, held: bool = False
) -> Evaluation:
    timing = None
    if eager is not None:
        timing = Timing(
            eager=ARM,
            candidate=ARM,
            speedup_eager=ratio(eager),
            noop_per_call_ms=0.01,
            blocks=(),
            speedup_compile=None if compiled is None else ratio(compiled),
        )
    stages = (
        (Stage.BUILD, Stage.VERIFY) if timing is None else (Stage.BUILD, Stage.VERIFY, Stage.TIME)
    )
    return Evaluation(
        status=Status.PASSED,
        summary="",
        problem="1" * 64,
        snapshot="2" * 64,
        target=Target.CPU,
        tier=Tier.QUICK,
        precision=Precision.IEEE,
        stages=stages,
        timing=timing,
        held=held,
    )


@pytest.mark.parametrize(
    ("eager", "compiled", "reward"),
    [
        (None, None, 1),
        (0.5, 0.4, 1),
        (1.0, 1.0, 1),
        (1.05, 0.9, 1),  # 1/1.05 saves 4.8 %
        (1.0527, 0.9, 2),  # 1/1.0527 saves 5.006 %
        (2.0, None, 2),
        (2.0, 1.05, 2),
        (2.0, 1.06, 3),
        (9.0, 8.0, 3),
        (0.9, 3.0, 1),  # faster than torch.compile, but not than eager
    ],
)
def test_the_milestones(eager: float | None, compiled: float | None, reward: int):
    assert milestone_reward(verdict(eager, compiled)) == reward


def test_a_ratio_from_a_separate_baseline_counts_where_the_verdict_has_none():
    assert milestone_reward(verdict(2.0), ratio(1.5)) == 3
    assert milestone_reward(verdict(2.0), ratio(1.0)) == 2


def test_the_verdicts_own_ratio_comes_before_a_separate_one():
    assert milestone_reward(verdict(2.0, 1.0), ratio(3.0)) == 2


def test_only_the_lower_end_of_the_interval_earns():
    wide = Ratio(median=3.0, low=1.01, high=9.0, pairs=5)
    assert milestone_reward(verdict(2.0), wide) == 2


def test_a_held_verdict_earns_what_a_failure_does():
    assert milestone_reward(verdict(20.0, 20.0, held=True)) == -1


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_whatever_did_not_pass_is_a_failure(status: Status):
    findings = (Finding("rule", "It broke a rule.", rejects=True),)
    failed = Evaluation(
        status=status,
        summary="",
        problem="1" * 64,
        snapshot="2" * 64,
        target=Target.CPU,
        tier=Tier.QUICK,
        precision=Precision.IEEE,
        stages=(Stage.BUILD, Stage.VERIFY),
        findings=findings if status is Status.REJECTED else (),
    )
    assert milestone_reward(failed) == -1
