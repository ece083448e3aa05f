"""The files of a source zip, from a problem, a snapshot and its verdict. Pure: bytes in, bytes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from webapp.exports.naming import Names, names_for
from webapp.exports.operators import kernel_ops_module
from webapp.exports.rewriting import NotExportable, as_package_module
from workers.protocol.codec import Json, ProtocolError, to_json
from workers.protocol.ops import MANIFEST_PATH, OpManifest, parse_manifest
from workers.protocol.problem import Target
from workers.protocol.verdict import Evaluation, Ratio, Status
from workers.workspace.binding import TORCH_TARGET_VERSION, binding_source
from workers.workspace.layout import MODEL, MODEL_NEW, kernel_sources

TEMPLATES = Path(__file__).parent / "project"
CPU_COMPILE_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fopenmp")
"""Those with which the judge's builder compiles kernels."""
CPU_LINK_FLAGS = ("-fopenmp",)
NOT_MEASURED = "not measured yet"


@dataclass(frozen=True)
class Origin:
    """What an export is made of."""

    title: str
    problem: Mapping[str, bytes]
    """Files of the problem."""
    snapshot: Mapping[str, bytes]
    """The author's files."""
    verdict: Evaluation
    speedup_compile: Ratio | None = None
    """Against torch.compile, where its baseline is known."""
    session: dict[str, Json] = field(default_factory=dict)
    """For evidence/session.json."""

    @property
    def names(self) -> Names:
        return names_for(self.title, self.verdict.target, self.verdict.snapshot)


def project_files(origin: Origin) -> dict[str, bytes]:
    """Every file of the project by its path; raises `NotExportable` with a sentence."""
    if origin.verdict.target is not Target.CPU:
        raise NotExportable(
            f"Exports are made for the target cpu; this problem is for {origin.verdict.target}."
        )
    if origin.verdict.status is not Status.PASSED:
        raise NotExportable("Only a snapshot that passed can be exported.")
    names = origin.names
    manifest = _manifest(origin)
    try:
        binding = binding_source(manifest, names.namespace, origin.verdict.target)
    except ProtocolError as error:
        raise NotExportable(str(error)) from error
    package = f"src/{names.package}"
    words = _words(origin)
    texts = {
        "README.md": _fill("README.md", words),
        "pyproject.toml": _fill("pyproject.toml", words),
        "setup.py": _fill("setup.py", words),
        "csrc/binding.cpp": binding,
        f"{package}/__init__.py": _fill("__init__.py", words),
        f"{package}/kernel_ops.py": kernel_ops_module(manifest, names.namespace, names.package),
        f"{package}/model_new.py": as_package_module(_text(origin.snapshot, MODEL_NEW)),
    }
    kernels = {
        f"csrc/{path}": content
        for path, content in origin.snapshot.items()
        if path.startswith("kernels/") and not path.endswith("_binding.cpp")
    }
    return {
        **{path: text.encode() for path, text in texts.items()},
        **kernels,
        f"{package}/reference.py": origin.problem[MODEL],
        "evidence/verdict.json": to_json(origin.verdict) + b"\n",
        "evidence/session.json": json.dumps(origin.session, indent=1, sort_keys=True).encode()
        + b"\n",
    }


def _manifest(origin: Origin) -> OpManifest:
    text = origin.snapshot.get(MANIFEST_PATH)
    if text is None and kernel_sources(origin.snapshot, origin.verdict.target):
        raise NotExportable(
            "These kernels have a hand-written binding, which is tied to one build of torch and cannot "
            f"be exported; describe them in {MANIFEST_PATH}."
        )
    if text is None:
        raise NotExportable(
            "This snapshot has no kernels of its own, so there is nothing to export."
        )
    try:
        return parse_manifest(text)
    except ProtocolError as error:
        raise NotExportable(str(error)) from error


def _words(origin: Origin) -> dict[str, str]:
    names, verdict = origin.names, origin.verdict
    timing, device, environment = verdict.timing, verdict.device, verdict.environment
    compiled = origin.speedup_compile or (timing.speedup_compile if timing else None)
    versions = "unknown"
    if environment is not None:
        versions = f"torch {environment.torch}, {environment.compiler}, Python {environment.python}"
    return {
        "title": origin.title,
        "description": json.dumps(f"{origin.title}: faster kernels for {verdict.target}"),
        "target": str(verdict.target),
        "package": names.package,
        "distribution": names.distribution,
        "version": names.version,
        "namespace": names.namespace,
        "torch_target": TORCH_TARGET_VERSION,
        "compile_flags": json.dumps(list(CPU_COMPILE_FLAGS)),
        "link_flags": json.dumps(list(CPU_LINK_FLAGS)),
        "speedup_eager": in_words(timing.speedup_eager if timing else None),
        "speedup_compile": in_words(compiled),
        "correctness": _correctness(verdict),
        "device": "unknown" if device is None else f"{device.name}, threads: {device.threads}",
        "versions": versions,
        "tier": f"{verdict.tier}, {'certified' if verdict.certified else 'not certified'}",
    }


def in_words(ratio: Ratio | None) -> str:
    """A speed-up with its interval."""
    if ratio is None:
        return NOT_MEASURED
    return f"{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"


def _correctness(verdict: Evaluation) -> str:
    if verdict.correctness is None:
        return NOT_MEASURED
    outputs = [output for case in verdict.correctness.cases for output in case.outputs]
    worst = max((output.rms_error for output in outputs), default=0.0)
    return (
        f"{len(verdict.correctness.cases)} sets of inputs compared with {verdict.correctness.reference}, "
        f"largest relative RMS error {worst:.1e}"
    )


def _fill(name: str, words: Mapping[str, str]) -> str:
    return Template((TEMPLATES / f"{name}.txt").read_text()).substitute(words)


def _text(files: Mapping[str, bytes], path: str) -> str:
    try:
        return files[path].decode()
    except KeyError:
        raise NotExportable(f"{path} is missing.") from None
    except UnicodeDecodeError as error:
        raise NotExportable(f"{path} is not UTF-8 text.") from error
