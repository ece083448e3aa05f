"""Bringing user code into the runner: files, modules, the built library."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import inspect
import socket
import sys
import traceback
import types
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from workers.device.runner.values import ValueProblem


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
        raise ContractError("it has no class Model")
    for name in ("get_inputs", "get_init_inputs"):
        if not callable(getattr(module, name, None)):
            raise ContractError(f"it has no function {name}()")


def construct(model_class: Any, arguments: list[Any]) -> Any:
    """`Model(*get_init_inputs())`, with a better word for arguments that do not fit."""
    with arguments_fit("Model", "get_init_inputs"):
        return model_class(*arguments)


@contextlib.contextmanager
def arguments_fit(callee: str, giver: str) -> Iterator[None]:
    """Within it, a `TypeError` that no line of the user's file raised is about the arguments of the call."""
    try:
        yield
    except TypeError as error:
        if place_of(error):
            raise
        raise ContractError(
            f"{callee}(*{giver}()) fails: {error}; {giver}() must return {callee}'s arguments in a list"
        ) from error


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


def is_out_of_memory(error: BaseException, message: str) -> bool:
    """Whether an exception with this message means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    signs = ("can't allocate memory", "out of memory", "bad_alloc")
    return isinstance(error, RuntimeError) and any(sign in message for sign in signs)


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


def told(error: BaseException) -> tuple[str, str]:
    """Name and message of an exception, with what to do about it where that can be known.

    The name is empty where the message is a sentence of ours. Messages are the user's: `str` may fail.
    """
    name = type(error).__name__
    if isinstance(error, (ContractError, ValueProblem)):
        return "", str(error)
    if isinstance(error, SyntaxError):
        return name, str(error.msg)
    try:
        message = str(error).strip()
    except BaseException:  # noqa: BLE001  (a user's __str__ may raise anything)
        message = "its text cannot be read"
    hint = _hint(error, message)
    return (
        name,
        f"{message} ({hint})" if message and hint else message or hint or "without a message",
    )


def _hint(error: BaseException, message: str) -> str:
    """What to do about errors that come from where the code runs, not from what it does."""
    for fits, hint in _HINTS:
        if fits(error, message):
            return hint
    return ""


_NO_NETWORK = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ENETDOWN}
_HINTS: tuple[tuple[Callable[[BaseException, str], bool], str], ...] = (
    (
        lambda e, _: isinstance(e, (SystemExit, KeyboardInterrupt)),
        "it ends the process; take that out",
    ),
    (
        lambda e, _: isinstance(e, ModuleNotFoundError),
        "the judge has torch and what is installed beside it",
    ),
    (
        lambda e, _: isinstance(e, ImportError),
        "the file stands alone; put all that it needs into it",
    ),
    (
        lambda e, m: (
            isinstance(e, (socket.gaierror, urllib.error.URLError))
            or (isinstance(e, OSError) and e.errno in _NO_NETWORK)
            or "internet connection" in m
        ),
        "the sandbox has no network",
    ),
    (
        lambda e, _: isinstance(e, (FileNotFoundError, PermissionError)),
        "there are no other files in the sandbox",
    ),
    (
        lambda e, _: isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EFBIG),
        "the sandbox has a small disk in memory",
    ),
    (
        lambda e, m: isinstance(e, BlockingIOError) or "can't start new thread" in m,
        "the sandbox allows few processes and threads",
    ),
    (
        lambda e, m: "CUDA" in m or "Torch not compiled with" in m or "NVIDIA driver" in m,
        "this problem is judged on the CPU; leave devices out",
    ),
)
