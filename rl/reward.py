"""The reward of training: milestones, not raw speed-up, so that outliers and easy kernels do not lead.

     3   faster than eager and than torch.compile
     2   faster than eager
     1   correct
    -1   anything else; also a verdict that is held or rejected

"Faster" means that it takes more than 5 % less time: (t0 - t) / t0 > 0.05, with t0 / t being the lower
end of the speed-up's 95 % interval, so that noise earns nothing. The reward is flat above a milestone;
never read a speed-up out of it.
"""

from __future__ import annotations

from workers.protocol.verdict import Evaluation, Ratio, Status

MARGIN = 0.05
FAILED = -1
CORRECT = 1
BEATS_EAGER = 2
BEATS_BOTH = 3


def milestone_reward(verdict: Evaluation, speedup_compile: Ratio | None = None) -> int:
    """The reward for a verdict. `speedup_compile` stands in where the verdict timed no torch.compile."""
    if verdict.status is not Status.PASSED or verdict.held:
        return FAILED
    if verdict.timing is None:
        return CORRECT
    compiled = verdict.timing.speedup_compile or speedup_compile
    if not is_faster(verdict.timing.speedup_eager):
        return CORRECT
    if compiled is None or not is_faster(compiled):
        return BEATS_EAGER
    return BEATS_BOTH


def is_faster(speedup: Ratio) -> bool:
    """Whether the time saved, at the interval's lower end, is more than the margin."""
    return 1 - 1 / speedup.low > MARGIN
