"""Names in a workspace and who may write them.

SKILL.md             read only   how to work here
model.py             read only   the problem
problem.toml         read only   its spec
utils/               read only   compile, verify, profile: clients of the judge
model_new.py         author      `ModelNew`, calling the kernels
kernels/ops.json     author      the op manifest (see workers/protocol/ops.py)
kernels/*.cpp *.h    author      kernels for the cpu target, no torch headers
kernels/*.cu *.cuh   author      kernels for the cuda target, no torch headers
kernels/*_binding.cpp, binding.cpp, binding_registry.h
                     author      hand-written pybind bindings: built when there is no ops.json
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from workers.protocol.codec import ProtocolError
from workers.protocol.files import check_path
from workers.protocol.ops import MANIFEST_PATH
from workers.protocol.problem import Target

MODEL = "model.py"
MODEL_NEW = "model_new.py"
PROBLEM_TOML = "problem.toml"
PROBLEM_FILES = (MODEL, PROBLEM_TOML)

AUTHOR_ROOT_FILES = (MODEL_NEW, "binding.cpp", "binding_registry.h")
_KERNEL_SUFFIXES = frozenset({".cpp", ".cu", ".cuh", ".h", ".hpp", ".json", ".inc"})
_SOURCE_SUFFIX = {Target.CPU: ".cpp", Target.CUDA: ".cu"}


def author_may_write(path: str) -> bool:
    """Whether a path of the workspace belongs to the author (and so to the snapshot)."""
    if path in AUTHOR_ROOT_FILES:
        return True
    return path.startswith("kernels/") and PurePosixPath(path).suffix in _KERNEL_SUFFIXES


def check_author_path(path: str) -> str:
    """Return the path if the author may write it, else raise `ProtocolError` saying what may be."""
    check_path(path)
    if not author_may_write(path):
        raise ProtocolError(
            f"{path} cannot be written; write {MODEL_NEW}, {MANIFEST_PATH} and sources in kernels/"
        )
    return path


def snapshot_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The author's part of a workspace."""
    return {path: content for path, content in files.items() if author_may_write(path)}


def kernel_sources(files: Mapping[str, bytes], target: Target) -> list[str]:
    """Paths of the kernel sources to compile for a target, sorted; bindings are not kernels."""
    suffix = _SOURCE_SUFFIX[target]
    return sorted(
        path
        for path in files
        if path.startswith("kernels/")
        and path.endswith(suffix)
        and not path.endswith("_binding.cpp")
    )
