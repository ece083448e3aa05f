"""When a measurement counts and when it does not."""

from __future__ import annotations

import socket

import pytest

from workers.device.judge.bench import Bench
from workers.device.judge.clock import Measurement
from workers.device.judge.job import Ended, JudgeJob
from workers.device.judge.link import RunnerLink
from workers.device.judge.timed import TimedStage
from workers.evaluation.score import Line
from workers.protocol.problem import ProblemSpec, Stage, Target, Tier
from workers.protocol.requests import EvaluateRequest
from workers.protocol.verdict import Block, DeviceInfo, Environment, Status
from workers.protocol.wire import Channel

NOOP = Line(slope_ms=0.0, intercept_ms=0.0)


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
    return TimedStage(job, Bench(link, call_limit_s=1.0), link, NOOP, [])


def measured(ratios: list[float]) -> Measurement:
    blocks = [
        Block(arm, calls, calls * each, order, 0.0)
        for order, (arm, calls, each) in enumerate(
            (arm, calls, each)
            for arm, each in (("eager", 4.0), ("candidate", 2.0))
            for calls in (1, 2, 4, 8)
        )
    ]
    return Measurement(("eager", "candidate"), NOOP, blocks=blocks, ratios=ratios)


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
