"""The supervisor of one device: keeps a warm crew, hands it jobs, brings verdicts home.

No torch here. A job holds the device lock; whatever happens to judge or runners becomes a verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from workers.artifacts import ArtifactMissing, ArtifactStore, get_files
from workers.evaluation import crew as crews
from workers.evaluation.config import WorkerConfig
from workers.evaluation.crew import Crew, CrewMaker
from workers.evaluation.device_lock import DeviceBusy, GivenBack, device_lock, foreground
from workers.evaluation.giving_back import Leaving
from workers.evaluation.verdicts import infrastructure, too_many_threads
from workers.protocol import wire
from workers.protocol.capabilities import Capabilities
from workers.protocol.codec import ProtocolError, from_json, to_data
from workers.protocol.problem import ProblemSpec, Stage, Target, Tier, parse_problem_toml
from workers.protocol.requests import BuildResult, EvaluateRequest
from workers.protocol.verdict import DeviceInfo, Environment, Evaluation, Status
from workers.sandbox import Ended, SandboxError, choose
from workers.workspace.layout import PROBLEM_TOML

JUDGE_VERSION = "0.1.0"
LOCK_LIMIT_S = 900.0
LIMITS_S = {Tier.QUICK: 240.0, Tier.FULL: 600.0, Tier.AUDIT: 900.0}
BASELINE_LIMIT_S = 480.0
END_GRACE_S = 2.0


class DeviceSupervisor:
    """One per device worker process; thread-safe, one job at a time."""

    def __init__(self, config: WorkerConfig, store: ArtifactStore) -> None:
        self.config = config
        self.store = store
        self.choice = choose(config.sandbox)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._crews = CrewMaker(config, self.choice.kind)

    @property
    def problem(self) -> str:
        """Why no job can run here, with the command that helps; empty when ready."""
        return self.choice.problem

    def warm(self) -> None:
        """Have a crew stand by, so that the next verdict need not wait for imports."""
        with self._lock:
            if not self.problem:
                self._crews.warm()

    def capabilities(self, worker: str, queues: Sequence[str]) -> Capabilities:
        """What this device offers those who ask its queues."""
        return Capabilities(
            worker=worker,
            queues=tuple(queues),
            targets=(Target.CPU,),
            environment=self._environment(None),
            device=device_info(Target.CPU, 1),
            problem=self.problem,
        )

    def run(
        self,
        request: EvaluateRequest,
        build: BuildResult | None = None,
        *,
        gives_way: bool = False,
    ) -> Evaluation:
        """Judge one request; `build` for those with a snapshot. Never raises for what a candidate does.

        A request that `gives_way` is left as soon as anybody on this machine waits for the device; all are
        left when this supervisor is interrupted. Raises `GivenBack` then.
        """
        if self.problem:
            return infrastructure(request, self.problem)
        device = str(request.target)
        leaving = Leaving(device, gives_way, self._ending)
        with contextlib.nullcontext() if gives_way else foreground(device), self._lock:
            try:
                with device_lock(device, LOCK_LIMIT_S, leaving.why):
                    return self._run(request, build, leaving)
            except (DeviceBusy, SandboxError) as error:
                return infrastructure(request, f"The judge could not start: {error}.")
            except ArtifactMissing as error:
                return infrastructure(request, f"Artifact {error} is missing from the store.")

    def interrupt(self) -> None:
        """Have what runs given back, and nothing begun any more; returns at once."""
        self._ending.set()

    def close(self) -> None:
        """Interrupt what runs and end what stands by."""
        self.interrupt()
        with self._lock:
            self._crews.close()

    def _run(
        self, request: EvaluateRequest, build: BuildResult | None, leaving: Leaving
    ) -> Evaluation:
        problem = get_files(self.store, request.problem)
        try:
            spec = parse_problem_toml(problem.get(PROBLEM_TOML, b"").decode())
        except (ProtocolError, UnicodeDecodeError) as error:
            return infrastructure(request, f"The problem's spec cannot be read: {error}")
        cores = len(os.sched_getaffinity(0))
        if spec.threads > cores:
            return too_many_threads(request, spec.threads, cores)
        files = {f"problem/{path}": content for path, content in problem.items()}
        if build is not None:
            snapshot = get_files(self.store, request.snapshot)
            files.update({f"snapshot/{path}": content for path, content in snapshot.items()})
            if build.library:
                files["library/library.so"] = self.store.get(build.library)
            if build.stub_library:
                files["library/stub.so"] = self.store.get(build.stub_library)
        crew = self._crews.take(_roles(request))
        try:
            if leaving.gives_way:
                self._crews.warm()  # for those who will not wait
            with leaving.watched(crew.judge.kill):
                evaluation = self._ask(crew, request, build, spec, files)
            if leaving.reason and evaluation.status is Status.INFRASTRUCTURE:
                raise GivenBack(leaving.reason)
            end = _end_of_runner(evaluation, crew)
        finally:
            crew.close()
            self._crews.warm()
        return _refined(evaluation, crew, end)

    def _ask(
        self,
        crew: Crew,
        request: EvaluateRequest,
        build: BuildResult | None,
        spec: ProblemSpec,
        files: dict[str, bytes],
    ) -> Evaluation:
        roles = dict(crew.roles)
        if request.snapshot and "library/stub.so" not in files:
            # Nothing to replay with; the judge must not wait for a runner that it will not use.
            roles.pop("stub")
        job = {
            "request": to_data(request),
            "spec": to_data(spec),
            "roles": roles,
            "environment": to_data(self._environment(build)),
            "device": to_data(device_info(request.target, spec.threads)),
            "timing_cores": list(timing_cores(spec.threads)),
            "build": to_data(build),
        }
        limit_s = BASELINE_LIMIT_S if Stage.BASELINE in request.stages else LIMITS_S[request.tier]
        try:
            crew.channel.set_timeout(limit_s)
            for path, content in files.items():
                crew.channel.send_file(path, content)
            crew.channel.send_json(wire.Kind.COMMAND, job)
            return from_json(Evaluation, crew.channel.receive(64 << 20).body)
        except wire.PeerSilent:
            return _timed_out(request, limit_s)
        except (wire.PeerGone, wire.BadFrame, ProtocolError) as error:
            crew.close()
            tail = crew.said("judge").splitlines()
            why = tail[-1] if tail else str(error)
            return infrastructure(request, f"The judge ended without a verdict: {why}")

    def _environment(self, build: BuildResult | None) -> Environment:
        return Environment(
            judge=JUDGE_VERSION,
            python=platform.python_version(),
            torch=installed_torch(self.config.python),
            compiler=build.compiler if build else "",
            sandbox=self._crews.runner_kind,
            os=f"{platform.system()} {platform.release()}",
        )


def _roles(request: EvaluateRequest) -> tuple[str, ...]:
    if Stage.BASELINE in request.stages:
        return crews.BASELINE_ROLES
    if not request.snapshot:
        return crews.PROBLEM_ROLES
    certifies = request.tier is not Tier.QUICK and Stage.TIME in request.stages
    return crews.CERTIFIED_ROLES if certifies else crews.CANDIDATE_ROLES


def _timed_out(request: EvaluateRequest, limit_s: float) -> Evaluation:
    text = f"No verdict within {limit_s:.0f} s: the calls take too long."
    return dataclasses.replace(infrastructure(request, text), status=Status.TIMEOUT)


def _role_on_trial(evaluation: Evaluation) -> str:
    return "candidate" if evaluation.snapshot else "eager"


def _end_of_runner(evaluation: Evaluation, crew: Crew) -> Ended | None:
    """How the runner ended, if it did and the verdict is about that; None while it lives."""
    if evaluation.status not in (Status.RUNTIME_ERROR, Status.LOAD_ERROR):
        return None
    runner = crew.runners[_role_on_trial(evaluation)]
    if evaluation.diagnostics:  # it told what went wrong, so it did not crash
        return runner.poll()
    # The judge saw its socket close; the kernel closes that before the end itself is reported.
    with contextlib.suppress(TimeoutError):
        return runner.wait(END_GRACE_S)
    return None


def _refined(evaluation: Evaluation, crew: Crew, end: Ended | None) -> Evaluation:
    """Say how the process ended, where the judge only saw that it did."""
    if end is None:
        return evaluation
    if end.out_of_memory:
        text = "The process was killed because it used more memory than allowed."
        return dataclasses.replace(evaluation, status=Status.OUT_OF_MEMORY, summary=text)
    how = f"exit code {end.code}"
    if end.signal:
        how = f"signal {end.signal} ({signal.strsignal(end.signal) or 'unknown'})"
    said = crew.said(_role_on_trial(evaluation)).splitlines()
    tail = f"; it last wrote: {said[-1][:200]}" if said else ""
    return dataclasses.replace(
        evaluation, summary=f"{evaluation.summary.rstrip('.')}: {how}{tail}."
    )


def timing_cores(threads: int) -> tuple[int, ...]:
    """The cores that runners are bound to: the last ones of those we may use."""
    usable = sorted(os.sched_getaffinity(0))
    return tuple(usable[-min(threads, len(usable)) :])


def device_info(target: Target, threads: int) -> DeviceInfo:
    """Name and size of this machine's processor."""
    return DeviceInfo(
        name=_processor(),
        target=target,
        threads=threads,
        cores=len(os.sched_getaffinity(0)),
        l2_bytes=_l2_bytes(),
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _l2_bytes() -> int:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if (index / "level").read_text().strip() == "2":
                return int((index / "size").read_text().strip().rstrip("K")) * 1024
        except (OSError, ValueError):
            continue
    return 0


def installed_torch(python: Path) -> str:
    """Version of torch beside an interpreter, read from its metadata without importing it."""
    for folder in _site_packages(python):
        for path in folder.glob("torch-*.dist-info"):
            return path.name.removeprefix("torch-").removesuffix(".dist-info")
    return "unknown"


def _site_packages(python: Path) -> list[Path]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    roots = {python.parent.parent, python.resolve().parent.parent, Path(sys.prefix)}
    return [
        root / "lib" / version / folder
        for root in roots
        for folder in ("site-packages", "dist-packages")
    ]
