"""The time stage: alternate eager and candidate, check what they gave, decide whether the time counts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workers.device.judge import floor, memory
from workers.device.judge.bench import Bench, paths_of
from workers.device.judge.clock import (
    Alternation,
    BlockResult,
    Measurement,
    choose_lengths,
    longest_block,
    overlapping,
)
from workers.device.judge.job import Ended, JudgeJob
from workers.device.judge.link import RunnerLink
from workers.device.judge.quiet import Canary
from workers.device.judge.solo import Solo, slower
from workers.device.judge.spots import UNWRITTEN, differ, misplaced, size_of
from workers.device.judge.verify import Verified, timed_check
from workers.device.judge.whereabouts import (
    FEWEST,
    LOOKS_FROM_MS,
    PLENTY,
    SHORTEST_MS,
    Whereabouts,
)
from workers.evaluation.score import Line, Spread, half_width, scaled, uneven
from workers.protocol.diagnostics import Finding
from workers.protocol.verdict import Memory, Ratio, Status, Timing

QUICK_BUDGET_S, FULL_BUDGET_S = 2.0, 10.0
LOOK_LONGER_S = 1.0
QUICK_PRECISE, FULL_PRECISE = 0.02, 0.01
QUICK_UNMEASURED, FULL_UNMEASURED = 0.20, 0.10
HOST_BOUND_MS = 0.1


def unmeasured_above(job: JudgeJob) -> float:
    """Half width of the interval, relative, above which no time is published."""
    return FULL_UNMEASURED if job.thorough else QUICK_UNMEASURED


def honest_ratio(measured: Measurement, job: JudgeJob) -> Ratio:
    """The ratio, where the machine let it be measured; else the course ends as `unmeasured`."""
    ratio = measured.ratio
    if ratio is not None and half_width(ratio) <= unmeasured_above(job):
        return ratio
    said = "Correct, but the" if job.request.snapshot else "The"
    if ratio is None:
        why = (
            f"{measured.disturbed_share:.0%} of the measurements were disturbed: the timing core was "
            "slower than when it is alone, or other processes ran on it"
        )
    else:
        why = f"the interval is {ratio.low:.2f} to {ratio.high:.2f}"
    advice = "Try again when less is running."
    if job.device.threads > 1 and job.device.threads >= job.device.cores:
        advice = (
            f"The problem's {job.device.threads} threads leave no core of this machine to the judge; "
            "ask for fewer in problem.toml, or use a larger machine."
        )
    raise Ended(
        Status.UNMEASURED,
        f"{said} machine was too busy for an honest time: {why}. {advice}",
    )


def longest_of(bench: Bench, seen: Verified) -> int:
    """How many calls a block may have at most."""
    return bench.affordable(longest_block(seen.call_ms, bench.input_bytes, seen.output_bytes))


@dataclass
class TimedStage:
    """Times one candidate against eager; findings go to `findings`."""

    job: JudgeJob
    bench: Bench
    candidate: RunnerLink
    noop: Line
    canary: Canary
    findings: list[Finding]
    solo: Solo
    alone: Spread
    """Eager's, before there was a candidate."""
    whereabouts: Whereabouts | None = None
    """Whose code the calls run; None where that does not matter."""
    claimed: Sequence[str] = ()
    """The operators of torch that the candidate admits to."""
    checked: int = 0
    output_bytes: int = 0
    """What the candidate wrote in one call: the memory that its outputs reach."""
    burnt_ms: float = 0.0
    timed_ms: float = 0.0
    call_ms: float = 0.0
    """What a call of the last block took."""

    def run(self, seen: Verified) -> tuple[Timing, int]:
        """The timing, and how many timed blocks were compared; raises `Ended` where there is none."""
        longest = longest_of(self.bench, seen)
        self.bench.allocate([self.bench.reference, self.candidate], longest)
        measured = self._alternate(longest)
        slowed = self._slowed(measured)
        if slowed:
            measured = self._alternate(longest)
            self._interference(min(slowed, self._slowed(measured)))
        self._threads()
        self._look_enough()
        complaint = self.whereabouts.complaint(self.claimed) if self.whereabouts else ""
        if complaint:
            self._reject("foreign_code", complaint)
        timing = self._timing(measured)
        self._physics(timing.candidate.per_call_ms)
        return timing, self.checked

    def _alternate(self, longest: int) -> Measurement:
        return Alternation(
            (self.bench.reference, self.candidate),
            self.noop,
            self.canary,
            longest,
            self.bench.fill,
            self._check,
            call_limit_s=self.bench.call_limit_s,
            budget_s=FULL_BUDGET_S if self.job.thorough else QUICK_BUDGET_S,
            acceptable=unmeasured_above(self.job),
            precise=FULL_PRECISE if self.job.thorough else QUICK_PRECISE,
        ).run()

    def _physics(self, per_call_ms: float) -> None:
        """Faster than a core can move the bytes that the outputs need: whatever it was, it was not this work."""
        bandwidth = floor.peak_bandwidth(self.job.spec.threads)
        everything = self.output_bytes + self.bench.input_bytes
        if per_call_ms >= floor.least_ms(everything, bandwidth):
            return
        reference = self.bench.reference

        def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            self.bench.write(reference, 0, inputs)
            return self.bench.eager(0)

        share = floor.share_that_matters(call, self.bench.fill([0])[0])
        reference.freeze()
        needed = self.output_bytes + share * self.bench.input_bytes
        least_ms = floor.least_ms(needed, bandwidth)
        if per_call_ms < least_ms:
            self._reject(
                "physics",
                f"A call takes {per_call_ms:.4f} ms, but no core moves the {needed / 1e6:.1f} MB that it writes "
                f"and needs to read in less than {least_ms:.4f} ms.",
            )

    def _slowed(self, measured: Measurement) -> float:
        """By which share eager is slower beside the candidate than alone, then and now; 0 where that proves nothing.

        Where eager alone is as slow now, the machine has changed, for both arms alike.
        """
        if measured.ratio is None:
            return 0.0
        beside = measured.eager_pace()
        if not slower(beside, self.alone):
            return 0.0
        return min(slower(beside, self.alone), slower(beside, self.solo.again()))

    def _interference(self, slowed: float) -> None:
        """What eager loses beside the candidate is not the candidate's gain."""
        if slowed:
            self._reject(
                "interference",
                f"Eager is {slowed:.0%} slower beside the candidate than alone, twice, and at its old pace "
                "again when timed alone: the candidate slows other work down.",
            )

    def memory(self) -> Memory:
        """Peak of resident memory during one call, above what was resident before it."""
        used = {}
        for link in (self.bench.reference, self.candidate):
            link.command("trim", 10.0)
            before = memory.reset_peak(link.pid)
            link.set_timeout(self.bench.call_limit_s)
            link.go(0)
            used[link.role] = max(memory.peak(link.pid) - before, 0)
            link.release()
            link.freeze()
        return Memory(eager_bytes=used["eager"], candidate_bytes=used["candidate"])

    def _check(
        self, eager: BlockResult, mine: BlockResult, index: int, contents: list[torch.Tensor]
    ) -> None:
        self.burnt_ms += mine.burnt_ms
        self.timed_ms += mine.net_ms
        if not self.bench.unchanged(self.candidate, index, contents):
            raise Ended(Status.INCORRECT, "Inputs: a timed call changed its input tensors.")
        self.places(self.bench.reference, eager, mine)
        self.output_bytes = sum(place.reach for place in mine.places[0])
        names = paths_of(self.bench.structure)
        wrong = timed_check(names, self.job.request.precision, eager, mine)
        if wrong:
            raise Ended(Status.INCORRECT, f"{wrong}.")
        sizes = [size_of(whole) for whole in eager.outputs]
        pairs = zip(eager.spots, mine.spots, strict=True)
        if any(differ(e, m, sizes, self.job.request.precision) for e, m in pairs):
            raise Ended(
                Status.INCORRECT, "A call of a timed block left its output wrong or unfinished."
            )
        self.checked += 1
        self._look_where_it_is(mine)

    def _look_where_it_is(self, mine: BlockResult) -> None:
        """Now and then a block more, with fresh contents, in which the candidate is stopped and looked at."""
        self.call_ms = max(mine.net_ms - self.noop.at(mine.calls), 0.0) / mine.calls
        if self.whereabouts is None or self.call_ms < SHORTEST_MS:
            return
        often = 8 if self.whereabouts.computing >= PLENTY else 1 + (self.call_ms >= LOOKS_FROM_MS)
        if not secrets.randbelow(often):
            self._look_once(self.whereabouts)

    def _look_enough(self) -> None:
        """A clear case is measured in few blocks; then some more are only looked at."""
        deadline = time.monotonic() + LOOK_LONGER_S
        while (
            self.whereabouts is not None
            and self.whereabouts.computing < FEWEST
            and self.call_ms >= SHORTEST_MS
            and time.monotonic() < deadline
        ):
            self._look_once(self.whereabouts)

    def _look_once(self, whereabouts: Whereabouts) -> None:
        longest = len(self.bench.addresses[self.candidate.role])
        sets = secrets.SystemRandom().sample(range(longest), choose_lengths(longest)[0])
        self.bench.fill(sets)
        whereabouts.block(self.candidate, sets, self.call_ms, self.bench.call_limit_s)

    def places(self, other: RunnerLink, eager: BlockResult, mine: BlockResult) -> None:
        """Where the outputs of a block lie: apart from each other, from the inputs, in own memory."""
        if overlapping(mine.places) and not overlapping(eager.places):
            self._reject(
                "disjoint_outputs",
                "Outputs of different calls share memory; each call must return memory of its own.",
            )
        inputs = [self.bench.input_spans(link) for link in (other, self.candidate)]
        for e, m in zip(eager.places, mine.places, strict=True):
            message = misplaced(e, m, *inputs)
            if message:
                self._reject("own_memory", message)
        if sum(s.foreign for s in mine.spots) and not sum(s.foreign for s in eager.spots):
            self._reject("own_memory", UNWRITTEN)

    def _reject(self, rule: str, message: str) -> None:
        self.findings.append(Finding(rule, message, True))
        raise Ended(Status.REJECTED, message)

    def _threads(self) -> None:
        """More CPU time within the blocks than the spec's threads can burn: others were used."""
        threads = self.job.spec.threads
        cpu_s, timed_s = self.burnt_ms / 1e3, self.timed_ms / 1e3
        if cpu_s > 1.05 * threads * timed_s + 0.01:
            allowed = f"{threads} thread{'s' if threads > 1 else ''}"
            self.findings.append(
                Finding(
                    "threads",
                    f"The candidate burnt {cpu_s:.1f} s of CPU time in {timed_s:.1f} s; "
                    f"the problem allows {allowed}.",
                    True,
                )
            )

    def _timing(self, measured: Measurement) -> Timing:
        ratio = self.charged(measured, honest_ratio(measured, self.job))
        mine = measured.arm("candidate")
        return Timing(
            eager=measured.arm("eager"),
            candidate=mine,
            speedup_eager=ratio,
            eager_alone_ms=self.alone.middle,
            noop_per_call_ms=self.noop.slope_ms,
            blocks=measured.all_blocks(),
            host_bound=mine.per_call_ms < HOST_BOUND_MS,
        )

    def charged(self, measured: Measurement, ratio: Ratio) -> Ratio:
        """The ratio less what the candidate hides from it."""
        return self._charge_uneven(measured, self._charge_hidden(measured, ratio))

    def _charge_uneven(self, measured: Measurement, ratio: Ratio) -> Ratio:
        """A speed-up that depends on how many calls come in a row counts where it is lower."""
        few, many = measured.by_length()
        if few is None or many is None or not uneven(few, many):
            return ratio
        lower = min(few.middle, many.middle)
        if lower >= ratio.median:
            return ratio
        self.findings.append(
            Finding(
                "block_length",
                f"The speed-up is {few.middle:.2f}x for few calls in a row and {many.middle:.2f}x for many; "
                "the lower one counts.",
            )
        )
        return scaled(ratio, lower / ratio.median)

    def _charge_hidden(self, measured: Measurement, ratio: Ratio) -> Ratio:
        """Charge what a single call costs beyond the slope, and beyond eager's own such cost."""
        eager, mine = (measured.arm(name) for name in measured.names)
        own = max(eager.single_ms - eager.per_call_ms, 0.0)
        hidden = (mine.single_ms - mine.per_call_ms) - own
        if hidden <= 0.05 * mine.per_call_ms + 0.05:
            return ratio
        self.findings.append(
            Finding(
                "single_call",
                f"A single call takes {hidden:.3f} ms more than a call in a row of many; that time counts.",
            )
        )
        return scaled(ratio, mine.per_call_ms / (mine.per_call_ms + hidden))
