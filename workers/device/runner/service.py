"""The runner's loop: one frame in, one frame out."""

from __future__ import annotations

import ctypes
import json
import os
import random
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from workers.device.runner import fence, loading, values
from workers.device.runner.inspection import InspectionError, inspect_model
from workers.device.runner.values import Descriptor, describe_outputs, output_structure
from workers.protocol.wire import MAX_FILE, Channel, Frame, Kind, split_file

WORKSPACE = Path("/tmp/workspace")  # noqa: S108  (a tmpfs of the sandbox, never the host's /tmp)

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Let malloc keep freed pages, so that page faults of the first block do not come back.

    Both arms run with it. Without it the kernel's zeroing of fresh pages, not the arithmetic,
    dominates models with large outputs.
    """
    libc = ctypes.CDLL(None)
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 64 << 20)):
        libc.mallopt(option, value)


class Service:
    """State of one runner."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        # A process that the user's code starts must not answer beside this one.
        os.register_at_fork(after_in_child=channel.sock.close)
        self.threads = 1
        self.model: torch.nn.Module | None = None
        self.double: torch.nn.Module | None = None
        self.module: Any = None
        self.sets: list[list[Any]] = []
        self.staged: dict[str, torch.Tensor] = {}
        self.kept: list[Any] = []
        self.call: Callable[..., Any] = _nothing_loaded
        self.noop_output = torch.zeros(16)

    def run(self) -> None:
        while True:
            frame = self.channel.receive(MAX_FILE)
            if frame.kind is Kind.GO:
                self._go(frame.index)
            elif frame.kind is Kind.NOOP:
                self.kept.append(self.noop_output)
                self.channel.send(Kind.DONE, frame.index, describe_outputs(self.noop_output))
            elif frame.kind is Kind.RELEASE:
                self.kept.clear()
            elif frame.kind is Kind.FILE:
                path, content = split_file(frame.body)
                loading.write_file(WORKSPACE / path, content)
            elif frame.kind is Kind.COMMAND:
                self._command(frame)

    def _go(self, index: int) -> None:
        try:
            output = self.call(*self.sets[index])
            self.kept.append(output)
            body = describe_outputs(output)
        except BaseException as error:  # noqa: BLE001  (user code may raise anything, SystemExit too)
            self._failed(error)
            return
        self.channel.send(Kind.DONE, index, body)

    def _command(self, frame: Frame) -> None:
        data = frame.json()
        handler = getattr(self, f"do_{data.pop('do')}")
        try:
            reply = handler(**data)
        except BaseException as error:  # noqa: BLE001  (user code may raise anything, SystemExit too)
            self._failed(error)
            return
        self.channel.send_json(Kind.REPLY, reply)

    def _failed(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))[-8000:]
        name, message = loading.told(error)
        kind = "memory" if loading.is_out_of_memory(error, message) else name
        body = {
            "kind": kind,
            "message": message[:2000],
            "trace": text,
            "where": loading.place_of(error),
        }
        self.channel.send(Kind.FAILED, 0, json.dumps(body).encode())

    # Commands; each answers with JSON-able data.

    def do_prepare(self, threads: int) -> dict[str, Any]:
        """Set threads and memory behaviour before any user code is here."""
        keep_freed_memory()
        self.threads = threads
        self._settle()
        return {"address": self.noop_output.data_ptr()}

    def do_trim(self) -> dict[str, Any]:
        """Give freed memory back to the system, so that a peak can be seen."""
        ctypes.CDLL(None).malloc_trim(0)
        return {}

    def do_load_problem(self, seed: int) -> dict[str, Any]:
        """Import model.py and build `Model(*get_init_inputs())` under a seed."""
        self.module = loading.import_file(WORKSPACE / "model.py", "model")
        loading.check_contract(self.module)
        constructor = values.as_list(self.module.get_init_inputs(), "get_init_inputs()")
        seed_all(seed)
        self._use(loading.construct(self.module.Model, constructor))
        self._settle()
        return {
            "constructor": values.to_plain(constructor, "get_init_inputs()"),
            "arguments": loading.forward_arguments(self.model),
            "state": self._state(),
        }

    def do_load_candidate(
        self, constructor: list[Any], seed: int, library: str, namespace: str, style: str
    ) -> dict[str, Any]:
        """Load the built library, import model_new.py and build `ModelNew` under a seed."""
        fence.stay_alone()
        loading.install_kernel_ops(WORKSPACE / library if library else None, namespace, style)
        self.module = loading.import_file(WORKSPACE / "model_new.py", "model_new")
        if not isinstance(getattr(self.module, "ModelNew", None), type):
            raise loading.ContractError("model_new.py has no class ModelNew")
        seed_all(seed)
        self._use(self.module.ModelNew(*values.from_plain(constructor)))
        self._settle()
        return {"state": self._state()}

    def do_compile(self) -> dict[str, Any]:
        """Wrap the model with torch.compile; the first call compiles."""
        assert self.model is not None
        self.call = torch.compile(self.model)
        return {}

    def do_stage_state(self, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        """Allocate tensors that the judge fills with parameters; answers their addresses."""
        self.staged = {item["name"]: values.allocate(item) for item in tensors}
        return {"addresses": [tensor.data_ptr() for tensor in self.staged.values()]}

    def do_load_state(self) -> dict[str, Any]:
        """Load the staged parameters, strictly."""
        assert self.model is not None
        self.model.load_state_dict(self.staged, strict=True)
        self.double = None
        return {}

    def do_make_inputs(self, seed: int) -> dict[str, Any]:
        """Run the problem's own `get_inputs()` under a seed; answers structure and addresses."""
        seed_all(seed)
        made = values.as_list(self.module.get_inputs(), "get_inputs()")
        self.kept.append(made)
        return {"inputs": values.describe_inputs(made)}

    def do_allocate_inputs(self, skeleton: list[Any], sets: int) -> dict[str, Any]:
        """Allocate input sets after a skeleton; answers the addresses of the tensors of each."""
        self.sets = []
        addresses = []
        for _ in range(sets):
            built, tensors = values.build_inputs(skeleton)
            self.sets.append(built)
            addresses.append([tensor.data_ptr() for tensor in tensors])
        return {"addresses": addresses}

    def do_structure(self, index: int) -> dict[str, Any]:
        """Call once and answer the structure of the result."""
        with loading.arguments_fit("forward", "get_inputs"):
            output = self.call(*self.sets[index])
        self.kept.append(output)
        return {"structure": output_structure(output)}

    def do_reference64(self, index: int) -> dict[str, Any]:
        """Call a copy of the model in double precision on input set `index`."""
        if self.double is None:
            self.double = values.double_model(self.model)
        output = self.double(*values.to_double(self.sets[index]))
        self.kept.append(output)
        return {"outputs": describe_outputs(output).hex()}

    def do_torch_calls(self, index: int) -> dict[str, Any]:
        """Call once and answer the operators that torch saw."""
        result, names = values.called_operators(lambda: self.call(*self.sets[index]))
        self.kept.append(result)
        return {"calls": names}

    def do_inspect(self, index: int) -> dict[str, Any]:
        """The graph of one call; `problem` says why there is none."""
        assert self.model is not None
        try:
            data = inspect_model(
                self.model, self.sets[index], source_path=str(WORKSPACE / "model.py")
            )
        except InspectionError as error:
            return {"problem": str(error)}
        return {"inspection": data}

    def _settle(self) -> None:
        """The threads and the mode that both arms run with, whatever a file has set while it was loaded."""
        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)

    def _use(self, model: object) -> None:
        if not isinstance(model, torch.nn.Module):
            raise loading.ContractError("the model class must derive from torch.nn.Module")
        self.model = model
        self.call = model

    def _state(self) -> list[Descriptor]:
        assert self.model is not None
        return values.describe_state(self.model.state_dict())


def seed_all(seed: int) -> None:
    """Seed torch and Python, the generators that a model file may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)


def _nothing_loaded(*inputs: Sequence[Any]) -> None:
    raise RuntimeError("no model is loaded")
