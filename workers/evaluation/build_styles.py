"""The two ways from sources to a library: a generated stable-ABI binding, or one that the author wrote."""

from __future__ import annotations

import concurrent.futures
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.evaluation.build_audit import (
    audit_kernels,
    audit_library,
    audit_torch_calls,
    missing_launchers,
    torch_shims,
)
from workers.evaluation.build_cache import BuildCache, tool_key
from workers.evaluation.build_cpu import BINDING, STUB, CpuRecipes
from workers.evaluation.build_diagnostics import parse
from workers.evaluation.build_elf import ElfError, read_object
from workers.evaluation.build_toolchain import TorchHeaders
from workers.evaluation.build_tools import Failure, ToolOutcome, ToolRun, describe, run_tool
from workers.protocol.diagnostics import Diagnostic, Severity
from workers.protocol.ops import MANIFEST_PATH, OpManifest
from workers.protocol.problem import OpPolicy, Target
from workers.protocol.requests import BuildStatus
from workers.workspace.binding import binding_source, stub_source
from workers.workspace.layout import kernel_sources
from workers.workspace.pybind import BINDING_CPP, binding_sources, with_defaults

_LAST_LINES = 6
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")
_TORCH_HEADER = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"]((?:(?:torch|ATen|c10|pybind11)/[^>\"\n]+|[./]*binding_registry\.h))[>\"]",
    re.MULTILINE,
)
_TORCH_LIBRARY = "libtorch_cpu.so"
_PYBIND_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")


class Stopped(Exception):
    """The build ends here, with this status. A normal ending, not an error of ours."""

    def __init__(self, status: BuildStatus, summary: str, *, lasting: bool = True) -> None:
        super().__init__(summary)
        self.status = status
        self.summary = summary
        self.lasting = lasting


@dataclass(frozen=True)
class Libraries:
    """What a finished build hands out."""

    library: bytes
    stub: bytes
    summary: str


@dataclass
class Workshop:
    """Runs tools for one build: in parallel, from the cache where it can, within the time that is left."""

    cache: BuildCache
    sandbox: str
    scratch: Path
    jobs: int
    toolchain: str
    compiler: str
    """Name for diagnostics."""
    deadline: float
    """On the monotonic clock."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    cached: int = 0
    compiled: int = 0

    def run(self, runs: Mapping[str, ToolRun], failed: BuildStatus) -> dict[str, bytes]:
        """Run all; raises `Stopped` if any of them gives no file (`failed` where the tool said no)."""
        with concurrent.futures.ThreadPoolExecutor(max(1, self.jobs)) as pool:
            answers = dict(zip(runs, pool.map(self._one, runs.values()), strict=True))
        self.cached += sum(known for _, known in answers.values())
        self.compiled += sum(not known for _, known in answers.values())
        outcomes = {name: outcome for name, (outcome, _) in answers.items()}
        for name, outcome in outcomes.items():
            self.log += [describe([runs[name]]), outcome.log]
            self.diagnostics += parse(outcome.log, self.compiler)
        for name, outcome in outcomes.items():
            if not outcome.ok:
                self._stop(name, outcome, failed)
        return {name: outcome.output for name, outcome in outcomes.items()}

    def say(self, found: tuple[Diagnostic, ...], status: BuildStatus) -> None:
        """Record what an audit found; raises `Stopped` if it found anything."""
        self.diagnostics += found
        if found:
            raise Stopped(status, _sentence(found[0]))

    def _one(self, run: ToolRun) -> tuple[ToolOutcome, bool]:
        """The outcome of a run and whether it was known already."""
        key = tool_key(run, self.toolchain)
        known = self.cache.tool(key)
        if known is not None:
            return known, True
        left = self.deadline - time.monotonic()
        if left <= 0:
            return ToolOutcome(b"", "", Failure.WALL, 0.0), False
        outcome = run_tool(run, self.sandbox, self.scratch, left)
        self.cache.keep_tool(key, outcome)
        return outcome, False

    def _stop(self, name: str, outcome: ToolOutcome, failed: BuildStatus) -> None:
        if outcome.failure is Failure.SANDBOX:
            text = (outcome.log.strip().splitlines() or ["no reason was given"])[-1]
            raise Stopped(
                BuildStatus.INFRASTRUCTURE,
                f"The compiler could not be started: {text}",
                lasting=False,
            )
        if outcome.failure in (Failure.WALL, Failure.CPU):
            text = f"{name} took too long to compile; make its templates and constant expressions simpler"
            raise Stopped(BuildStatus.TIMEOUT, text, lasting=outcome.failure is Failure.CPU)
        if outcome.failure is Failure.MEMORY:
            text = (
                f"the compiler needed more memory than allowed for {name}; make the source smaller"
            )
            raise Stopped(BuildStatus.OUT_OF_MEMORY, text, lasting=False)
        if outcome.failure is Failure.SIZE:
            self._add(f"what {name} compiles to is larger than allowed", name)
            raise Stopped(failed, f"what {name} compiles to is larger than allowed")
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if not errors:
            lines = outcome.log.strip().splitlines()[-_LAST_LINES:]
            self._add(" ".join(lines) or f"{self.compiler} failed without a message", name)
            errors = self.diagnostics[-1:]
        raise Stopped(failed, _sentence(errors[0]))

    def _add(self, message: str, file: str) -> None:
        self.diagnostics.append(Diagnostic(self.compiler, Severity.ERROR, message, file=file))


def manifest_style(
    shop: Workshop,
    recipes: CpuRecipes,
    files: Mapping[str, bytes],
    manifest: OpManifest,
    namespace: str,
    torch: TorchHeaders,
) -> Libraries:
    """Kernels apart, the generated binding beside them, linked; the same binding over stubs."""
    sources = kernel_sources(files, Target.CPU)
    runs = {path: recipes.kernel(path, files) for path in sources}
    runs[BINDING] = recipes.binding(binding_source(manifest, namespace, Target.CPU), torch)
    runs[STUB] = recipes.stub(stub_source(manifest, Target.CPU))
    objects = shop.run(runs, BuildStatus.COMPILE_ERROR)
    binding, stub = objects.pop(BINDING), objects.pop(STUB)
    _audited(shop, lambda: audit_kernels(objects), BuildStatus.REJECTED)
    _audited(shop, lambda: missing_launchers(manifest, objects), BuildStatus.LINK_ERROR)
    stand_in = recipes.stand_in(_TORCH_LIBRARY, torch_shims(binding))
    stand_ins = shop.run({_TORCH_LIBRARY: stand_in}, BuildStatus.LINK_ERROR)
    links = {
        "library": recipes.link({**objects, BINDING: binding}, stand_ins, complete=True),
        "stub": recipes.link({BINDING: binding, STUB: stub}, stand_ins, complete=True),
    }
    linked = shop.run(links, BuildStatus.LINK_ERROR)
    _audited(shop, lambda: audit_library(linked["library"]), BuildStatus.REJECTED)
    summary = (
        f"Built {_count(sources, 'kernel source')} behind a binding made from {MANIFEST_PATH}."
    )
    return Libraries(linked["library"], linked["stub"], summary)


def pybind_style(
    shop: Workshop,
    recipes: CpuRecipes,
    files: Mapping[str, bytes],
    policy: OpPolicy,
    torch: TorchHeaders,
) -> Libraries:
    """Kernels and the author's own bindings, as one Python extension named `cuda_extension`."""
    full = with_defaults(files)
    sources, bindings = kernel_sources(full, Target.CPU), binding_sources(full)
    shop.say(_misplaced_headers(sources, full), BuildStatus.COMPILE_ERROR)
    runs = {path: recipes.kernel(path, full) for path in sources}
    runs |= {path: recipes.written_binding(path, full, torch) for path in bindings}
    objects = shop.run(runs, BuildStatus.COMPILE_ERROR)
    kernels = {path: objects[path] for path in sources}
    written = {path: objects[path] for path in bindings}
    _audited(shop, lambda: audit_kernels(kernels), BuildStatus.REJECTED)
    if policy is OpPolicy.KERNELS_ONLY:
        _audited(shop, lambda: audit_torch_calls(written), BuildStatus.REJECTED)
    runs = {name: recipes.stand_in(name, ()) for name in _PYBIND_LIBRARIES}
    runs[STUB] = recipes.stub(_stub_of(kernels, written))
    made = shop.run(runs, BuildStatus.LINK_ERROR)
    stub = made.pop(STUB)
    links = {
        "library": recipes.link(objects, made, complete=False),
        "stub": recipes.link({**written, STUB: stub}, made, complete=False),
    }
    linked = shop.run(links, BuildStatus.LINK_ERROR)
    _audited(shop, lambda: audit_library(linked["library"]), BuildStatus.REJECTED)
    summary = (
        f"Built {_count(sources, 'kernel source')} behind a hand-written binding ({BINDING_CPP}), "
        f"which runs here but cannot be exported; describe the kernels in {MANIFEST_PATH} for that."
    )
    return Libraries(linked["library"], linked["stub"], summary)


def _misplaced_headers(sources: list[str], files: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    """Kernels that include what only bindings may; the compiler would only say that there is no such file."""
    found = []
    for path in sources:
        match = _TORCH_HEADER.search(files[path].decode(errors="replace"))
        if match:
            line = files[path].count(b"\n", 0, match.start()) + 1
            text = (
                f"kernels are compiled without torch, so {match[1]} cannot be included here; put what "
                f"needs it into {path.removesuffix('.cpp')}_binding.cpp"
            )
            found.append(Diagnostic("audit", Severity.ERROR, text, file=path, line=line))
    return tuple(found)


def _stub_of(kernels: Mapping[str, bytes], bindings: Mapping[str, bytes]) -> str:
    """Empty functions in place of all that the bindings call in the kernels."""
    offered = {name for content in kernels.values() for name in read_object(content).defined}
    wanted = {name for content in bindings.values() for name in read_object(content).undefined}
    lines = []
    for number, name in enumerate(sorted(offered & wanted)):
        if _SYMBOL.fullmatch(name):
            lines.append(f'extern "C" void stub_{number}() __asm__("{name}");')
            lines.append(f'extern "C" void stub_{number}() {{}}')
    return "\n".join(["// Functions that do nothing.", *lines, ""])


def _audited(
    shop: Workshop, audit: Callable[[], tuple[Diagnostic, ...]], status: BuildStatus
) -> None:
    try:
        found = audit()
    except ElfError as error:
        found = (Diagnostic("audit", Severity.ERROR, f"the built file cannot be read: {error}"),)
        status = BuildStatus.REJECTED
    shop.say(found, status)


def _sentence(diagnostic: Diagnostic) -> str:
    place = diagnostic.file
    if place and diagnostic.line is not None:
        place += f":{diagnostic.line}"
    text = f"{place}: {diagnostic.message}" if place else diagnostic.message
    return text if len(text) <= 400 else text[:400] + " ..."


def _count(items: list[str], word: str) -> str:
    return f"{len(items)} {word}{'' if len(items) == 1 else 's'}"
