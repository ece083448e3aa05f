"""When a measurement counts and when it does not."""

from __future__ import annotations

import os
import socket

import pytest

from workers.device.judge.bench import Bench
from workers.device.judge.clock import Measurement, TimedPair
from workers.device.judge.job import Ended, JudgeJob
from workers.device.judge.link import RunnerLink
from workers.device.judge.quiet import Canary, Look
from workers.device.judge.solo import Solo, slower
from workers.device.judge.timed import TimedStage
from workers.evaluation.score import Line, Pair, Spread, spread_of
from workers.protocol.problem import ProblemSpec, Stage, Target, Tier
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Block, DeviceInfo, Environment, Status
from workers.protocol.wire import Channel

NOOP = Line(slope_ms=0.0, intercept_ms=0.0)
CANARY = Canary(sorted(os.sched_getaffinity(0))[-1:])
CALM = Look(0.0, 0.0)
SLOW = Look(3600.0, 0.0)
ALONE = Spread(4.0, 0.01)


def stage(tier: Tier = Tier.QUICK) -> TimedStage:
    stages = (Stage.BUILD, Stage.VERIFY, Stage.TIME)
    job = JudgeJob(
        request=EvaluateRequest("a" * 64, "b" * 64, stages, tier=tier),
        spec=ProblemSpec(),
        roles={},
        environment=Environment("", "", "", "", "none"),
        device=DeviceInfo("", Target.CPU),
        timing_cores=(0,),
    )
    link = RunnerLink("candidate", Channel(socket.socketpair()[0]))
    bench = Bench(link, call_limit_s=1.0)
    return TimedStage(job, bench, link, NOOP, CANARY, [], Solo(bench, NOOP, CANARY), ALONE)


def measured(
    ratios: list[float], looks: tuple[Look, Look] = (CALM, CALM), waited: bool = False
) -> Measurement:
    """Candidate blocks of 2 ms a call, and eager ones that many times as long, one length after another."""
    result = Measurement(("eager", "candidate"), NOOP, CANARY)
    for index, ratio in enumerate(ratios):
        calls = (1, 2, 4, 8)[index % 4]
        order = len(result.blocks)
        for arm, each in (("eager", 2.0 * ratio), ("candidate", 2.0)):
            result.blocks.append(Block(arm, calls, calls * each, len(result.blocks)))
        pair = Pair(calls, calls * 2.0 * ratio, calls * 2.0)
        result.timed.append(TimedPair(pair, looks, waited, (order, order + 1)))
    result.conclude()
    return result


def test_a_steady_measurement_gives_a_time() -> None:
    timing = stage()._timing(measured([2.0, 2.01, 1.99, 2.0, 2.02, 1.98, 2.0, 2.0]))
    assert timing.speedup_eager.median == pytest.approx(2.0)
    assert timing.candidate.per_call_ms == pytest.approx(2.0)
    assert not timing.host_bound


@pytest.mark.parametrize("tier", [Tier.QUICK, Tier.FULL])
def test_a_wide_interval_gives_no_number_at_all(tier: Tier) -> None:
    with pytest.raises(Ended) as caught:
        stage(tier)._timing(measured([0.5, 1.0, 2.0, 4.0, 0.7, 3.0, 1.4, 2.6]))
    assert caught.value.status is Status.UNMEASURED
    assert "too busy" in caught.value.summary


def test_a_full_evaluation_wants_a_narrower_interval_than_a_quick_one() -> None:
    ratios = [1.75, 1.8, 2.2, 2.25, 1.78, 2.22, 1.76, 2.24]
    assert stage(Tier.QUICK)._timing(measured(ratios)).speedup_eager.pairs == 8
    with pytest.raises(Ended):
        stage(Tier.FULL)._timing(measured(ratios))


@pytest.mark.parametrize(
    ("looks", "waited"), [((CALM, SLOW), False), ((SLOW, CALM), False), ((CALM, CALM), True)]
)
def test_pairs_taken_while_the_machine_is_disturbed_do_not_count(
    looks: tuple[Look, Look], waited: bool
) -> None:
    result = measured([2.0, 2.01, 1.99, 2.0] * 3, looks, waited)
    assert result.ratio is None
    with pytest.raises(Ended) as caught:
        stage()._timing(result)
    assert caught.value.status is Status.UNMEASURED
    assert "disturbed" in caught.value.summary
    assert all(block.disturbed for block in result.all_blocks())


def test_a_few_disturbed_pairs_do_not_move_the_ratio() -> None:
    result = measured([2.0, 2.01, 1.99, 2.0] * 3)
    wild = measured([9.0] * 4, (CALM, SLOW))
    result.timed += wild.timed
    result.conclude()
    assert result.ratio is not None
    assert result.ratio.median == pytest.approx(2.0, rel=0.01)
    assert result.ratio.pairs == 12


def test_eager_that_is_somewhat_slower_beside_the_candidate_is_no_interference() -> None:
    assert slower(Spread(6.0, 0.01), ALONE) == 0.0
    assert slower(Spread(3.0, 0.01), ALONE) == 0.0


def test_noise_and_short_calls_are_no_interference_and_half_the_speed_is() -> None:
    assert slower(Spread(8.8, 0.4), ALONE) == 0.0
    assert slower(Spread(0.9, 0.01), Spread(0.3, 0.01)) == 0.0
    assert slower(Spread(8.8, 0.02), ALONE) == pytest.approx(1.2)


def test_a_pace_is_robust_against_single_blocks() -> None:
    pace = spread_of([4.0, 4.01, 3.99, 4.0, 40.0])
    assert pace.middle == pytest.approx(4.0)
    assert pace.error < 0.01


def test_interference_that_shows_twice_rejects() -> None:
    judge = stage()
    judge._interference(0.0)
    with pytest.raises(Ended) as caught:
        judge._interference(1.2)
    assert caught.value.status is Status.REJECTED
    assert judge.findings[0].rejects


def test_a_speed_up_that_depends_on_the_length_of_a_block_counts_where_it_is_lower() -> None:
    ratios = [2.0, 2.0, 4.0, 4.0] * 6  # blocks of 1, 2, 4 and 8 calls
    judge = stage(Tier.QUICK)
    few, many = measured(ratios).by_length()
    assert few is not None
    assert many is not None
    assert (few.middle, many.middle) == pytest.approx((2.0, 4.0), rel=0.2)
    result = measured(ratios)
    assert result.ratio is not None
    charged = judge._charge_uneven(result, result.ratio)
    assert charged.median == pytest.approx(min(few.middle, many.middle))
    assert [finding.rule for finding in judge.findings] == ["block_length"]


def test_noise_between_lengths_is_not_charged() -> None:
    result = measured([2.0, 2.1, 1.9, 2.05, 2.2, 1.95, 2.0, 2.1] * 4)
    judge = stage()
    assert result.ratio is not None
    assert judge._charge_uneven(result, result.ratio) == result.ratio
    assert not judge.findings
