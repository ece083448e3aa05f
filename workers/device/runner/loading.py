"""Bringing user code into the runner: files, modules, the built library."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import torch


class ContractError(Exception):
    """The file does not offer what a problem or candidate must offer; the text says what is missing."""


def write_file(path: Path, content: bytes) -> None:
    """Write one file of the workspace; the sandbox's size limit is the only limit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def import_file(path: Path, name: str) -> types.ModuleType:
    """Import a file by its path under a module name of our choice."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check_contract(module: types.ModuleType) -> None:
    """Refuse a problem file without `Model`, `get_inputs` and `get_init_inputs`."""
    if not isinstance(getattr(module, "Model", None), type):
        raise ContractError("model.py has no class Model")
    for name in ("get_inputs", "get_init_inputs"):
        if not callable(getattr(module, name, None)):
            raise ContractError(f"model.py has no function {name}()")


def forward_arguments(model: torch.nn.Module | None) -> list[str]:
    """Names of the arguments of `forward`, in order."""
    assert model is not None
    return list(inspect.signature(model.forward).parameters)


def install_kernel_ops(library: Path | None, namespace: str, style: str) -> None:
    """Offer the built kernels as the module `kernel_ops` (and, as in CUDA-Agent, `cuda_extension`)."""
    if library is None:
        return
    if style == "pybind":
        module = _import_extension(library)
    else:
        torch.ops.load_library(str(library))
        module = types.ModuleType("kernel_ops")
        operators = getattr(torch.ops, namespace)
        # A module-level __getattr__ keeps the look-up lazy: torch resolves names on demand.
        module.__dict__["__getattr__"] = lambda name: getattr(operators, name)
    sys.modules["kernel_ops"] = module
    sys.modules["cuda_extension"] = module


def _import_extension(library: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("cuda_extension", library)
    if spec is None or spec.loader is None:
        raise ContractError("the built extension cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text or "bad_alloc" in text
    )


def place_of(error: BaseException) -> str:
    """File and line of the user's code that raised, such as `model_new.py:14`; empty if none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno or 1}"
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name in ("model.py", "model_new.py")
    ]
    return places[-1] if places else ""


def describe(error: Any) -> str:
    """One line for an exception."""
    return f"{type(error).__name__}: {error}"
