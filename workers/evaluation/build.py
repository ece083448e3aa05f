"""Build a snapshot: compile, link, audit. The library is never loaded here, and no torch is needed to run this.

    files of the snapshot ── style ──┬─ manifest   kernels + binding generated from kernels/ops.json
                                     ├─ pybind     kernels + the author's own binding
                                     └─ python     no kernels at all: nothing to build

Every compiler runs in a sandbox of its own with fixed flags. Results are cached as a whole and per
object, failures too, under keys computed beforehand. A failed build is a result; nothing that a
snapshot holds makes `build` raise.

Not covered: a bug in the compiler that a source could use. It would reach what the sandbox shows, which is
the toolchain and that one source, and could spoil that one object only.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.artifacts import ArtifactMissing, ArtifactStore, get_files
from workers.evaluation import build_cpu, build_styles
from workers.evaluation.build_cache import BuildCache, build_key
from workers.evaluation.build_cpu import CpuRecipes
from workers.evaluation.build_styles import (
    Libraries,
    Stopped,
    Workshop,
    manifest_style,
    pybind_style,
)
from workers.evaluation.build_toolchain import Compiler, ToolchainMissing, find_compiler, find_torch
from workers.evaluation.build_tools import ToolLimits
from workers.evaluation.config import WorkerConfig
from workers.protocol.codec import ProtocolError, to_json
from workers.protocol.diagnostics import Diagnostic, Severity
from workers.protocol.files import digest_of
from workers.protocol.ops import MANIFEST_PATH, OpManifest, parse_manifest
from workers.protocol.problem import OpPolicy, ProblemSpec, Target, parse_problem_toml
from workers.protocol.requests import BuildResult, BuildStatus, EvaluateRequest
from workers.sandbox import choose
from workers.workspace import binding, pybind
from workers.workspace.binding import binding_source
from workers.workspace.layout import PROBLEM_TOML, kernel_sources
from workers.workspace.pybind import binding_sources

_TOTAL_S = 300.0


@dataclass(frozen=True)
class BuildLimits:
    """Bounds on a build: each tool by itself, and all together."""

    tool: ToolLimits = field(default_factory=ToolLimits)
    total_s: float = _TOTAL_S


@dataclass(frozen=True)
class _Job:
    """What the digests of a request stand for."""

    files: dict[str, bytes]
    policy: OpPolicy
    style: str
    manifest: OpManifest | None

    @property
    def namespace(self) -> str:
        """Depends on the manifest alone, so that the binding is not compiled anew for each kernel."""
        return (
            "" if self.manifest is None else f"warpsmith_{digest_of(to_json(self.manifest))[:12]}"
        )


def build(
    request: EvaluateRequest,
    store: ArtifactStore,
    config: WorkerConfig,
    limits: BuildLimits | None = None,
) -> BuildResult:
    """Build the snapshot of a request; see the head of this module."""
    started = time.monotonic()
    try:
        job = _read(request, store)
        result = _build(job, store, config, limits or BuildLimits())
    except _Refused as refused:
        result = refused.result
    except (ToolchainMissing, ArtifactMissing) as error:
        text = (
            str(error)
            if isinstance(error, ToolchainMissing)
            else f"The files {error} are gone from the store"
        )
        result = BuildResult(BuildStatus.INFRASTRUCTURE, text)
    return dataclasses.replace(result, seconds=round(time.monotonic() - started, 4))


class _Refused(Exception):
    """The snapshot cannot be built as it is; the result says why."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        diagnostic = Diagnostic("manifest", Severity.ERROR, message, file=file)
        self.result = BuildResult(BuildStatus.COMPILE_ERROR, f"{file}: {message}", (diagnostic,))


def _read(request: EvaluateRequest, store: ArtifactStore) -> _Job:
    if request.target is not Target.CPU:
        raise ToolchainMissing(
            f"This builder cannot build for {request.target}; only cpu is built here"
        )
    files = get_files(store, request.snapshot)
    policy = _policy(get_files(store, request.problem))
    if MANIFEST_PATH in files:
        return _Job(files, policy, "manifest", _manifest(files[MANIFEST_PATH]))
    if binding_sources(files):
        return _Job(files, policy, "pybind", None)
    if sources := kernel_sources(files, Target.CPU):
        message = (
            f"the file is missing, so nothing can call {sources[0]}; describe the launchers in it"
        )
        raise _Refused(message, MANIFEST_PATH)
    return _Job(files, policy, "python", None)


def _policy(problem: Mapping[str, bytes]) -> OpPolicy:
    """The op rule of the problem. A spec that does not parse gets the strict one; the judge refuses it anyway."""
    try:
        return parse_problem_toml(problem.get(PROBLEM_TOML, b"").decode(errors="replace")).op_policy
    except ProtocolError:
        return ProblemSpec().op_policy


def _manifest(content: bytes) -> OpManifest:
    try:
        manifest = parse_manifest(content)
        binding_source(manifest, "check", Target.CPU)
    except ProtocolError as error:
        raise _Refused(re.sub(r"^OpManifest[:.]\s*", "", str(error)), MANIFEST_PATH) from error
    return manifest


def _build(
    job: _Job, store: ArtifactStore, config: WorkerConfig, limits: BuildLimits
) -> BuildResult:
    if job.style == "python":
        text = "The snapshot has no kernels, so there is nothing to compile."
        return BuildResult(BuildStatus.BUILT, text, style="python")
    choice = choose(config.sandbox)
    if choice.problem:
        return BuildResult(BuildStatus.INFRASTRUCTURE, choice.problem, style=job.style)
    compiler = find_compiler()
    torch = find_torch(config.python)
    toolchain = f"{compiler.version} {compiler.native} torch {torch.version}"
    cache = BuildCache(config.cache / "build")
    key = build_key(job.files, _facts(job, toolchain, limits))
    if known := cache.build(key, store):
        return known
    shop = Workshop(
        cache=cache,
        sandbox=choice.kind,
        scratch=config.cache / "scratch",
        jobs=config.build_jobs,
        toolchain=toolchain,
        compiler=compiler.name,
        deadline=time.monotonic() + limits.total_s,
    )
    recipes = CpuRecipes(compiler, limits.tool)
    lasting = True
    try:
        if job.manifest is not None:
            made = manifest_style(shop, recipes, job.files, job.manifest, job.namespace, torch)
        else:
            made = pybind_style(shop, recipes, job.files, job.policy, torch)
        result = _built(job, made, store, shop, compiler)
    except Stopped as stopped:
        lasting = stopped.lasting
        result = _result(job, BuildResult(stopped.status, stopped.summary), store, shop, compiler)
    cache.keep_build(key, result, lasting=lasting)
    return result


def _facts(job: _Job, toolchain: str, limits: BuildLimits) -> dict[str, str]:
    return {
        "style": job.style,
        "policy": job.policy.value,
        "toolchain": toolchain,
        "target": Target.CPU.value,
        "limits": repr(limits),
        "recipes": _recipes(),
    }


@functools.cache
def _recipes() -> str:
    """Changes with whatever decides about flags and generated sources, so that an update builds anew."""
    modules = (build_cpu, build_styles, binding, pybind)
    return digest_of(b"".join(Path(str(module.__file__)).read_bytes() for module in modules))


def _built(
    job: _Job, made: Libraries, store: ArtifactStore, shop: Workshop, compiler: Compiler
) -> BuildResult:
    result = BuildResult(
        BuildStatus.BUILT,
        made.summary,
        library=store.put(made.library),
        stub_library=store.put(made.stub),
    )
    return _result(job, result, store, shop, compiler)


def _result(
    job: _Job, result: BuildResult, store: ArtifactStore, shop: Workshop, compiler: Compiler
) -> BuildResult:
    return dataclasses.replace(
        result,
        style=job.style,
        namespace=job.namespace,
        compiler=compiler.version,
        diagnostics=tuple(shop.diagnostics),
        cached_objects=shop.cached,
        compiled_objects=shop.compiled,
        log=store.put("".join(shop.log).encode()),
    )
