"""The course of one evaluation of a candidate: load, verify, replay, time.

The reference runner is asked for nothing of the candidate's and the candidate for nothing of the
reference's; neither learns tier, stage or how much is still to come.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workers.device.judge import processes
from workers.device.judge.bench import LOAD_LIMIT_S, LONGEST_LIMIT_S, Bench
from workers.device.judge.clock import (
    calibrate,
)
from workers.device.judge.compiled import CompiledArm
from workers.device.judge.job import Ended, JudgeFiles, JudgeJob, ended_by
from workers.device.judge.link import RunnerFailure, RunnerLink
from workers.device.judge.maps import MAPS
from workers.device.judge.quiet import Canary
from workers.device.judge.solo import Solo
from workers.device.judge.timed import TimedStage
from workers.device.judge.verify import (
    Verified,
    authorship_findings,
    claimed_calls,
    computing_calls,
    same_form,
    stub_breaks_output,
    told,
    verify_case,
)
from workers.device.judge.whereabouts import Whereabouts
from workers.protocol.diagnostics import Finding
from workers.protocol.problem import OpPolicy, Stage
from workers.protocol.verdict import Authorship, Correctness, Evaluation, Status, Timing

START_LIMIT_S = 60.0
QUICK_CASES, FULL_CASES = 5, 10
HELD_ABOVE = 10.0


class Course:
    """Runs the stages and gathers what they give."""

    def __init__(self, job: JudgeJob, files: JudgeFiles, links: dict[str, RunnerLink]) -> None:
        self.job = job
        self.files = files
        self.links = links
        self.reference = links["eager"]
        self.bench = Bench(self.reference, call_limit_s=LONGEST_LIMIT_S)
        self.parts: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self.durations: dict[str, float] = {}
        self.claimed: list[str] = []

    # -- the frame -----------------------------------------------------------------------------

    def run(self) -> Evaluation:
        """Go through the stages of the request; every end of the course is a verdict."""
        try:
            with self._timed("start"):
                self._start()
            self._stages()
            status, summary = self._conclusion()
        except Ended as end:
            status, summary = end.status, end.summary
            self.parts["diagnostics"] = end.diagnostics
            if status is Status.REJECTED and not self._rejected():
                self.findings.append(Finding("admission", summary, True))
        except RunnerFailure as failure:
            who = "the candidate" if failure.role in ("candidate", "stub") else "the reference"
            failed = ended_by(failure, who, "failed")
            status, summary = failed.status, failed.summary
            if failure.role not in ("candidate", "stub") and self.job.request.snapshot:
                status = Status.INFRASTRUCTURE
        except (MemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
                raise
            status, summary = Status.OUT_OF_MEMORY, "Comparing needs more memory than there is."
        return self._verdict(status, summary)

    def _stages(self) -> None:
        with self._timed("load"):
            self.load()
        with self._timed("verify"):
            self.verify()
        if Stage.TIME in self.job.request.stages and not self._rejected():
            with self._timed("time"):
                self.time()

    def _conclusion(self) -> tuple[Status, str]:
        rejecting = [f for f in self.findings if f.rejects]
        if rejecting:
            return Status.REJECTED, rejecting[0].message
        timing: Timing | None = self.parts.get("timing")
        if timing is None:
            cases = len(self.parts["correctness"].cases)
            return Status.PASSED, f"Correct on {cases} fresh inputs."
        ratio = timing.speedup_eager
        return (
            Status.PASSED,
            f"Correct, {ratio.median:.2f}x the speed of eager "
            f"(95 % interval {ratio.low:.2f} to {ratio.high:.2f}).",
        )

    def _verdict(self, status: Status, summary: str) -> Evaluation:
        request = self.job.request
        if status not in (Status.PASSED, Status.REJECTED):
            self.parts.pop("timing", None)
        timing: Timing | None = self.parts.get("timing")
        held = (
            status is Status.PASSED
            and timing is not None
            and timing.speedup_eager.median > HELD_ABOVE
        )
        if status is not Status.REJECTED:
            self.findings = [f for f in self.findings if not f.rejects]
        build = self.job.build
        diagnostics = (*(build.diagnostics if build else ()), *self.parts.pop("diagnostics", ()))
        return Evaluation(
            status=status,
            summary=summary,
            problem=request.problem,
            snapshot=request.snapshot,
            target=request.target,
            tier=request.tier,
            precision=request.precision,
            stages=request.stages,
            held=held and not self.job.thorough,
            diagnostics=diagnostics,
            findings=tuple(self.findings),
            device=self.job.device,
            environment=self.job.environment,
            durations_ms=self.durations,
            **self.parts,
        )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.durations[name] = round(1e3 * (time.monotonic() - started), 1)

    def _rejected(self) -> bool:
        return any(f.rejects for f in self.findings)

    # -- start ---------------------------------------------------------------------------------

    def _start(self) -> None:
        cores = set(self.job.timing_cores)
        for link in self.links.values():
            try:
                link.greet(START_LIMIT_S)
                processes.pin(link.pid, cores)
                link.command("prepare", START_LIMIT_S, threads=self.job.spec.threads)
            except (RunnerFailure, OSError) as error:
                raise Ended(
                    Status.INFRASTRUCTURE, f"A sandboxed runner did not start: {error}"
                ) from error
        # Before any user code: what a go token costs by itself.
        self.canary = Canary(self.job.timing_cores)
        self.noop = calibrate(self.reference, self.canary)

    # -- load ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Reference first: it gives constructor arguments and parameters for the candidate."""
        self.load_problem()
        if Stage.TIME in self.job.request.stages:
            self._time_alone()
        candidate, stub = self.links["candidate"], self.links.get("stub")
        self._load_candidate(candidate, "library.so")
        everywhere = [self.reference, candidate]
        if stub is not None:
            try:
                self._load_candidate(stub, "stub.so")
                everywhere.append(stub)
            except Ended:
                # It fell over without its kernels, which proves that it needs them.
                self.links.pop("stub")
        self.bench.load_parameters(everywhere, self.bench.draw_parameters())
        self.bench.allocate(everywhere, 2)
        self.bench.fill([0])
        self.bench.learn_structure()
        self.reference.freeze()

    def _time_alone(self) -> None:
        """Eager's pace while there is nothing of the candidate's anywhere."""
        self.bench.load_parameters([self.reference], self.bench.draw_parameters())
        self.solo = Solo(self.bench, self.noop, self.canary)
        self.alone = self.solo.first()

    def load_problem(self) -> None:
        try:
            self.bench.load_problem(self.files.problem)
        except RunnerFailure as failure:
            end = ended_by(failure, "model.py", "could not be loaded", loading=True)
            if self.job.request.snapshot:
                end.status = Status.INFRASTRUCTURE
            raise end from failure
        if self.bench.structured:
            names = ", ".join(str(i) for i in self.bench.structured)
            self.findings.append(
                Finding(
                    "structured_inputs",
                    f"Input tensors {names} do not look like independent draws, so their contents come "
                    "from get_inputs() under secret seeds.",
                )
            )

    def _load_candidate(self, link: RunnerLink, library: str) -> None:
        build = self.job.build
        assert build is not None
        try:
            for path, content in self.files.snapshot.items():
                link.send_file(path, content)
            has_library = library in self.files.library
            if has_library:
                link.send_file(library, self.files.library[library])
            started = time.monotonic()
            reply = link.command(
                "load_candidate",
                LOAD_LIMIT_S,
                constructor=self.bench.constructor,
                seed=self.bench.seed,
                library=library if has_library else "",
                namespace=build.namespace,
                style=build.style,
            )
        except RunnerFailure as failure:
            raise ended_by(
                failure, "The candidate", "could not be loaded", loading=True
            ) from failure
        with link.claims():
            self._check_state(reply["state"])
        if link.role == "candidate":
            self.parts["setup_ms"] = 1e3 * (time.monotonic() - started)

    def _check_state(self, state: list[dict[str, Any]]) -> None:
        mine = {item["name"]: (item["dtype"], tuple(item["shape"])) for item in self.bench.state}
        theirs = {str(i["name"]): (str(i["dtype"]), tuple(i["shape"])) for i in state}
        if mine == theirs:
            return
        missing = sorted(set(mine) - set(theirs))
        extra = sorted(set(theirs) - set(mine))
        different = sorted(k for k in set(mine) & set(theirs) if mine[k] != theirs[k])
        parts = [
            f"{word} {', '.join(name[:60] for name in names[:5])}"
            for word, names in (
                ("missing", missing),
                ("not in Model:", extra),
                ("of another type or shape:", different),
            )
            if names
        ]
        raise Ended(
            Status.LOAD_ERROR,
            f"ModelNew must have the same state_dict as Model; {'; '.join(parts)}.",
        )

    # -- verify --------------------------------------------------------------------------------

    def verify(self) -> None:
        candidate, bench = self.links["candidate"], self.bench
        precision = self.job.request.precision
        seen = Verified()
        plain = FULL_CASES if self.job.thorough else QUICK_CASES
        cases = ["" for _ in range(plain)] + (list(MAPS) if self.job.thorough else [])
        try:
            for case, map_name in enumerate(cases):
                if self.job.thorough and case == plain // 2:
                    bench.load_parameters(bench.links, bench.draw_parameters())
                    for link in bench.links:
                        link.freeze()
                verify_case(bench, candidate, case % 2, precision, seen, map_name)
                if not seen.passed:
                    break
        except RunnerFailure as failure:
            if failure.role == "candidate":
                raise ended_by(failure, "The candidate", "failed while called") from failure
            raise
        self.seen = seen
        self.parts["setup_ms"] = round(self.parts["setup_ms"] + seen.setup_ms, 3)
        self.parts["correctness"] = Correctness(tuple(seen.cases), seen.reference)
        if not seen.passed:
            bad = next(e for case in seen.cases for e in case.outputs if not e.passed)
            raise Ended(Status.INCORRECT, told(bad))
        if seen.misplaced:
            self.findings.append(Finding("own_memory", seen.misplaced, True))
            raise Ended(Status.REJECTED, seen.misplaced)
        problem = same_form(bench, candidate)
        if problem:
            raise Ended(Status.INCORRECT, f"{problem}.")
        self._authorship(candidate)
        self._strangers(candidate)

    def _authorship(self, candidate: RunnerLink) -> None:
        build, precision = self.job.build, self.job.request.precision
        assert build is not None
        contents = self.bench.fill([0])[0]
        expected, _ = self.bench.expect(0, self.bench.eager(0))
        stub = self.links.get("stub")
        breaks, stub_ms = True, 0.0
        if stub is not None:
            breaks, stub_ms = stub_breaks_output(self.bench, stub, expected, contents, precision)
        self.claimed = claimed_calls(self.bench, candidate)
        calls = computing_calls(self.claimed, build.namespace)
        self.findings += authorship_findings(self.job.spec.op_policy, build.style, breaks, calls)
        typical = statistics.median(self.seen.candidate_ms)
        share = None
        if stub_ms and typical > self.noop.at(1):
            share = 1 - max(stub_ms - self.noop.at(1), 0.0) / (typical - self.noop.at(1))
            share = round(min(max(share, 0.0), 1.0), 4)
        self.parts["authorship"] = Authorship(breaks, share, tuple(calls))

    def _whereabouts(self) -> Whereabouts | None:
        """Where kernels only may compute, calls are looked at from outside."""
        library = self.files.library.get("library.so", b"")
        kernels_only = self.job.spec.op_policy is OpPolicy.KERNELS_ONLY
        return Whereabouts(library) if library and kernels_only else None

    def _strangers(self, candidate: RunnerLink) -> None:
        if processes.strangers(candidate.pid):
            self.findings.append(
                Finding(
                    "processes",
                    "The candidate has started other processes; it must do its work in its own.",
                    True,
                )
            )

    # -- time ----------------------------------------------------------------------------------

    def time(self) -> None:
        stub = self.links.pop("stub", None)
        if stub is not None:
            # It has the candidate's code in it, so it must not even wait while the clock runs.
            processes.kill(stub.pid)
        candidate = self.links["candidate"]
        stage = TimedStage(
            self.job,
            self.bench,
            candidate,
            self.noop,
            self.canary,
            self.findings,
            self.solo,
            self.alone,
            self._whereabouts(),
            self.claimed,
        )
        try:
            self.parts["memory"] = stage.memory()
            timing, checked = stage.run(self.seen)
            if "compile" in self.links and not self._rejected():
                arm = CompiledArm(stage, self.links["compile"], self.files.problem)
                timing = arm.add_to(timing, self.seen)
                checked += arm.checked
        except RunnerFailure as failure:
            if failure.role == "candidate":
                raise ended_by(failure, "The candidate", "failed in a timed call") from failure
            raise
        correctness: Correctness = self.parts["correctness"]
        self.parts["correctness"] = Correctness(correctness.cases, correctness.reference, checked)
        self._strangers(candidate)
        self.parts["timing"] = timing
