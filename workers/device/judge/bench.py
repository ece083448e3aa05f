"""The bench: runners with the same parameters and inputs in front of the judge.

Parameters are built once under a hidden seed, changed where they are constant (a norm's weight of one
hides a kernel that skips it), and loaded into every runner before its first call. Input contents are
written into every runner alike.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workers.device.judge.clock import LENGTHS
from workers.device.judge.compare import Expectation
from workers.device.judge.inputs import Pool, TensorSpec, learn, read_tensors, tensors_in
from workers.device.judge.link import DTYPES, RunnerFailure, RunnerLink
from workers.protocol.wire import ELEMENT_TYPES

LOAD_LIMIT_S = 60.0
# A call may take a hundred times as long as eager's first one, within these bounds.
SHORTEST_LIMIT_S, LONGEST_LIMIT_S = 10.0, 60.0
# How long the contents of one block may take to draw.
LONGEST_DRAW_S = 0.4
# A candidate's outputs may take four times what the reference's take, or this.
LEAST_OUTPUT_LIMIT = 64 << 20


@dataclass
class Bench:
    """What the judge knows about the problem and has written into the runners."""

    reference: RunnerLink
    call_limit_s: float
    constructor: list[Any] = field(default_factory=list)
    argument_names: list[str] = field(default_factory=list)
    skeleton: list[Any] = field(default_factory=list)
    specs: list[TensorSpec] = field(default_factory=list)
    state: list[dict[str, Any]] = field(default_factory=list)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    structure: Any = None
    seed: int = field(default_factory=lambda: secrets.randbits(48))
    pools: list[Pool | None] = field(default_factory=list)
    drawn: list[list[torch.Tensor]] = field(default_factory=list)
    draw_s: float = 0.0
    addresses: dict[str, list[list[int]]] = field(default_factory=dict)
    links: list[RunnerLink] = field(default_factory=list)

    # -- the problem ---------------------------------------------------------------------------

    def load_problem(self, files: dict[str, bytes]) -> None:
        """Import the reference and learn its inputs; raises `RunnerFailure` of the reference."""
        for path in ("model.py", "problem.toml"):
            if path in files:
                self.reference.send_file(path, files[path])
        reply = self.reference.command("load_problem", LOAD_LIMIT_S, seed=self.seed)
        with self.reference.claims():
            self.constructor = list(reply["constructor"])
            self.argument_names = [str(name) for name in reply["arguments"]]
            self.state = list(reply["state"])
            self.parameters = {item["name"]: self._read_tensor(item) for item in self.state}
        first, flats = self._own_inputs()
        _, others = self._own_inputs()
        self.skeleton = first
        with self.reference.claims():
            self.specs = learn(first, flats, others)
        self._same_sizes(flats)
        self._same_sizes(others)
        self.pools = [
            Pool(spec) if spec.law not in ("constant", "structured") else None
            for spec in self.specs
        ]
        self.drawn = [flats, others]

    @property
    def structured(self) -> list[int]:
        """Positions of input tensors whose contents the judge cannot draw itself."""
        return [i for i, spec in enumerate(self.specs) if spec.law == "structured"]

    @property
    def input_bytes(self) -> int:
        return sum(spec.nbytes for spec in self.specs)

    def _own_inputs(self) -> tuple[list[Any], list[torch.Tensor]]:
        started = time.monotonic()
        reply = self.reference.command("make_inputs", LOAD_LIMIT_S, seed=secrets.randbits(48))
        with self.reference.claims():
            description = list(reply["inputs"])
            flats = read_tensors(self.reference, description)
        self.reference.release()
        self.draw_s = time.monotonic() - started
        return description, flats

    def _same_sizes(self, flats: list[torch.Tensor]) -> None:
        if [flat.numel() for flat in flats] != [spec.elements for spec in self.specs]:
            message = "get_inputs() gives tensors of other shapes when it is called again"
            raise RunnerFailure(self.reference.role, "raised", message)

    def _read_tensor(self, item: dict[str, Any]) -> torch.Tensor:
        raw = self.reference.read(int(item["address"]), int(item["bytes"]))
        return raw.view(DTYPES[ELEMENT_TYPES.index(item["dtype"])])

    # -- parameters ----------------------------------------------------------------------------

    def draw_parameters(self) -> dict[str, torch.Tensor]:
        """New values near the built ones; constants become different from each other."""
        generator = torch.Generator().manual_seed(secrets.randbits(63))
        values: dict[str, torch.Tensor] = {}
        first_at: dict[tuple[object, ...], str] = {}
        for item in self.state:
            # Two names for one tensor (tied weights) get one value, whoever else keeps them apart.
            name = item["name"]
            place = (item["address"], item["bytes"], item["dtype"], str(item["strides"]))
            tied = first_at.setdefault(place, name) if item["bytes"] else name
            values[name] = (
                values[tied] if tied != name else _varied(self.parameters[name], generator)
            )
        return values

    def load_parameters(self, links: Sequence[RunnerLink], values: dict[str, torch.Tensor]) -> None:
        """Write parameters into staging tensors of each runner and have it load them, strictly."""
        if not self.state:
            return
        for link in links:
            reply = link.command("stage_state", LOAD_LIMIT_S, tensors=self.state)
            with link.claims():
                for item, address in zip(self.state, reply["addresses"], strict=True):
                    link.write(int(address), values[item["name"]])
            link.command("load_state", LOAD_LIMIT_S)

    # -- inputs --------------------------------------------------------------------------------

    def allocate(self, links: Sequence[RunnerLink], sets: int) -> None:
        """Make room for input sets in each runner."""
        self.links = list(links)
        for link in links:
            reply = link.command("allocate_inputs", LOAD_LIMIT_S, skeleton=self.skeleton, sets=sets)
            with link.claims():
                rows = [[int(address) for address in row] for row in reply["addresses"]]
                if [len(row) for row in rows] != [len(self.specs)] * sets:
                    raise ValueError("addresses of other tensors than asked for")
            self.addresses[link.role] = rows
            link.freeze()

    def affordable(self, longest: int) -> int:
        """Fewer calls in a block where `get_inputs()` has to be asked for the contents of each."""
        if not self.structured:
            return longest
        return max(min(longest, int(LONGEST_DRAW_S / max(self.draw_s, 1e-6))), LENGTHS)

    def fill(self, sets: Sequence[int]) -> list[list[torch.Tensor]]:
        """Write fresh contents, the same into every runner; returns them per set and tensor."""
        contents = []
        for index in sets:
            own = self._drawn_once() if self.structured else self.drawn[0]
            tensors = [self._content(position, own) for position in range(len(self.specs))]
            for link in self.links:
                self.write(link, index, tensors)
            contents.append(tensors)
        return contents

    def write(self, link: RunnerLink, index: int, tensors: Sequence[torch.Tensor]) -> None:
        """Write these contents into one input set of one runner."""
        for address, tensor in zip(self.addresses[link.role][index], tensors, strict=True):
            link.write(int(address), tensor)

    def unchanged(self, link: RunnerLink, index: int, contents: list[torch.Tensor]) -> bool:
        """Whether a call left its inputs as they were."""
        return all(
            torch.equal(link.read(int(address), t.numel() * t.element_size()), t.view(torch.uint8))
            for address, t in zip(self.addresses[link.role][index], contents, strict=True)
        )

    def input_spans(self, link: RunnerLink) -> list[tuple[int, int]]:
        """Address ranges of all input tensors in a runner."""
        return [
            (address, address + spec.nbytes)
            for row in self.addresses[link.role]
            for address, spec in zip(row, self.specs, strict=True)
            if spec.nbytes
        ]

    def _content(self, position: int, own: list[torch.Tensor]) -> torch.Tensor:
        pool = self.pools[position]
        return own[position] if pool is None else pool.fresh()

    def _drawn_once(self) -> list[torch.Tensor]:
        """Contents from `get_inputs()` that no call has seen: known ones could be looked up."""
        was_frozen = self.reference.frozen
        drawn = self._own_inputs()[1]
        self._same_sizes(drawn)
        if was_frozen:
            self.reference.freeze()
        return drawn

    # -- what is right -------------------------------------------------------------------------

    def eager(self, index: int) -> list[torch.Tensor]:
        """The reference's outputs for an input set, in its own precision."""
        self.reference.thaw()
        self.reference.set_timeout(self.call_limit_s)
        outputs = self.reference.outputs(self.reference.go(index))
        self.reference.release()
        return outputs

    def expect(self, index: int, eager: list[torch.Tensor]) -> tuple[list[Expectation], bool]:
        """Eager's outputs for an input set beside those in double precision; False without the latter."""
        exact = self._exact(index)
        fits = len(exact) == len(eager) and all(
            a.shape == b.shape for a, b in zip(exact, eager, strict=True)
        )
        if not fits:
            return [Expectation(e, None) for e in eager], False
        return [
            Expectation(e, x if e.dtype.is_floating_point else None)
            for e, x in zip(eager, exact, strict=True)
        ], True

    def _exact(self, index: int) -> list[torch.Tensor]:
        """The outputs in double precision; empty where the model has no such form."""
        try:
            reply = self.reference.command("reference64", 3 * self.call_limit_s, index=index)
            with self.reference.claims():
                body = bytes.fromhex(reply["outputs"])
            exact = self.reference.outputs(body)
        except RunnerFailure as failure:
            if failure.kind not in ("raised", "memory"):
                raise
            exact = []
        self.reference.release()
        return exact

    def learn_structure(self) -> None:
        """The nesting of the reference's result, and how long a call may take from now on."""
        started = time.monotonic()
        reply = self.reference.command("structure", self.call_limit_s, index=0)
        spent = time.monotonic() - started
        self.call_limit_s = min(max(100 * spent, SHORTEST_LIMIT_S), LONGEST_LIMIT_S)
        self.structure = reply.get("structure")
        self.reference.release()
        size = sum(tensor.numel() * tensor.element_size() for tensor in self.eager(0))
        for link in self.links:
            if link is not self.reference:
                link.most_bytes = max(4 * size, LEAST_OUTPUT_LIMIT)


def paths_of(structure: Any, prefix: str = "") -> list[str]:
    """Names of the tensors of a result: positions and keys joined by dots, empty for a single one."""
    if structure is None:
        return [prefix]
    if "sequence" in structure:
        items = [(str(i), item) for i, item in enumerate(structure["sequence"])]
    else:
        items = list(structure["keys"].items())
    return [
        path
        for name, item in items
        for path in paths_of(item, f"{prefix}.{name}" if prefix else name)
    ]


def skeleton_bytes(skeleton: list[Any]) -> int:
    """Bytes of all tensors of an input description."""
    return sum(int(item["bytes"]) for item in tensors_in(skeleton))


def _varied(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not value.dtype.is_floating_point or value.numel() == 0:
        return value
    noise = torch.rand(value.numel(), generator=generator, dtype=torch.float64)
    x = value.double()
    if float(x.min()) == float(x.max()):
        # A constant: spread it by a quarter of its size, around zero by a tenth.
        size = abs(float(x[0]))
        spread = 0.25 * size if size else 0.1
        changed = x + spread * (2 * noise - 1)
    else:
        # Keep signs and scale: running variances stay positive, masks stay zero.
        changed = x * (0.9 + 0.2 * noise)
    return changed.to(value.dtype)
