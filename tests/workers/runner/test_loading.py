"""Errors of user code, in words that say what to do."""

from __future__ import annotations

import errno
import socket
import urllib.error

import pytest

from workers.device.runner.loading import (
    ContractError,
    arguments_fit,
    construct,
    is_out_of_memory,
    told,
)
from workers.device.runner.values import ValueProblem


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("k"), ("KeyError", "'k'")),
        (ContractError("it has no class Model"), ("", "it has no class Model")),
        (ValueProblem("forward returned a str"), ("", "forward returned a str")),
        (SystemExit(), ("SystemExit", "it ends the process; take that out")),
        (SystemExit(3), ("SystemExit", "3 (it ends the process; take that out)")),
        (ValueError(), ("ValueError", "without a message")),
        (Mute(), ("Mute", "its text cannot be read")),
        (
            ModuleNotFoundError("No module named 'flash'"),
            (
                "ModuleNotFoundError",
                "No module named 'flash' (the judge has torch and what is installed beside it)",
            ),
        ),
    ],
)
def test_an_error_is_told_by_name_and_message(
    error: BaseException, expected: tuple[str, str]
) -> None:
    assert told(error) == expected


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "no network"),
        (socket.gaierror(-3, "Temporary failure in name resolution"), "no network"),
        (urllib.error.URLError("timed out"), "no network"),
        (FileNotFoundError(errno.ENOENT, "No such file", "w.pt"), "no other files"),
        (PermissionError(errno.EACCES, "Permission denied"), "no other files"),
        (OSError(errno.ENOSPC, "No space left on device"), "small disk"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "few processes"),
        (RuntimeError("can't start new thread"), "few processes"),
        (ImportError("attempted relative import"), "stands alone"),
        (AssertionError("Torch not compiled with CUDA enabled"), "judged on the CPU"),
    ],
)
def test_what_the_sandbox_lacks_is_said(error: BaseException, hint: str) -> None:
    assert hint in told(error)[1]


def test_a_syntax_error_is_told_without_its_place_which_stands_beside_it() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("class (", "model.py", "exec")
    assert told(caught.value) == ("SyntaxError", "invalid syntax")


def test_arguments_that_do_not_fit_are_told_from_errors_inside() -> None:
    class Model:
        def __init__(self, size: int) -> None:
            self.size = size

    with pytest.raises(
        ContractError, match=r"Model\(\*get_init_inputs\(\)\) fails: .*'size'; get_init"
    ):
        construct(Model, [])
    assert construct(Model, [3]).size == 3
    inside = compile("def forward(x):\n    return len(x)\n", "model.py", "exec")
    names: dict[str, object] = {}
    exec(inside, names)
    with pytest.raises(TypeError), arguments_fit("forward", "get_inputs"):
        names["forward"](3)  # type: ignore[operator]


def test_memory_that_ran_out_is_known_by_type_or_text() -> None:
    assert is_out_of_memory(MemoryError(), "")
    assert is_out_of_memory(RuntimeError(), "DefaultCPUAllocator: can't allocate memory")
    assert not is_out_of_memory(ValueError(), "out of memory")
