"""The op manifest `kernels/ops.json`: what the kernels offer and how they are called.

Bindings (stable ABI), stubs and exports are all generated from it. One launcher per op::

    {"version": 1, "ops": [{
      "name": "bias_gelu",
      "launcher": "ws_bias_gelu",
      "inputs":  [{"name": "x", "kind": "tensor", "dtype": "float32", "ndim": 2},
                  {"name": "bias", "kind": "tensor", "dtype": "float32", "ndim": 1},
                  {"name": "scale", "kind": "float"}],
      "outputs": [{"name": "y", "dtype": "float32", "shape": ["x.0", "x.1"]}],
      "scratch": [{"name": "tmp", "bytes": "4 * x.1"}],
      "arguments": ["x", "bias", "y", "tmp", "x.0", "x.1", "scale"]}]}

gives the C function, in the order of `arguments`::

    extern "C" void ws_bias_gelu(const float *x, const float *bias, float *y, void *tmp,
                                 int64_t x_0, int64_t x_1, double scale);

and the Python call `kernel_ops.bias_gelu(x, bias, scale) -> y` (a tuple for several outputs).
On `cuda` the argument name `stream` passes the current `cudaStream_t` as `void *`.

A shape or byte count is an integer expression over `NAME.K` (size of dimension K of an input tensor),
`NAME.numel`, int inputs by name, integer literals, `+ - * /` (floor division) and parentheses.
Input tensors must be contiguous and of the declared dtype; the binding refuses anything else.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from workers.protocol.codec import ProtocolError, from_json

MANIFEST_PATH = "kernels/ops.json"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z][A-Za-z0-9_]*(?:\.(?:\d+|numel))?)|([-+*/()]))")


class ElementType(enum.StrEnum):
    """Element types of tensors, named as in torch."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _ITEMSIZE[self]


_ITEMSIZE = {
    ElementType.FLOAT64: 8,
    ElementType.FLOAT32: 4,
    ElementType.FLOAT16: 2,
    ElementType.BFLOAT16: 2,
    ElementType.INT64: 8,
    ElementType.INT32: 4,
    ElementType.INT16: 2,
    ElementType.INT8: 1,
    ElementType.UINT8: 1,
    ElementType.BOOL: 1,
}


class InputKind(enum.StrEnum):
    TENSOR = "tensor"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


@dataclass(frozen=True)
class OpInput:
    """An argument of the Python call."""

    name: str
    kind: InputKind
    dtype: ElementType | None = None
    """For tensors only, and needed there."""
    ndim: int | None = None
    """Number of dimensions, checked by the binding; None takes any."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if (self.dtype is not None) != (self.kind is InputKind.TENSOR):
            raise ProtocolError(f"input {self.name}: exactly the tensors have a dtype")


@dataclass(frozen=True)
class OpOutput:
    """A tensor that the binding allocates, uninitialised, and the launcher fills."""

    name: str
    dtype: ElementType
    shape: tuple[str, ...]

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True)
class OpScratch:
    """Uninitialised memory that lives for one call."""

    name: str
    bytes: str

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True)
class Op:
    """One operator and its launcher."""

    name: str
    launcher: str
    inputs: tuple[OpInput, ...]
    outputs: tuple[OpOutput, ...]
    arguments: tuple[str, ...]
    scratch: tuple[OpScratch, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.launcher)
        names = [x.name for x in self.inputs]
        names += [x.name for x in self.outputs]
        names += [x.name for x in self.scratch]
        if len(set(names)) != len(names):
            raise ProtocolError(f"op {self.name}: names of inputs, outputs and scratch must differ")
        if not self.outputs:
            raise ProtocolError(f"op {self.name}: an op needs at least one output")
        known = expression_names(self)
        for argument in self.arguments:
            if argument not in names and argument not in known and argument != "stream":
                raise ProtocolError(f"op {self.name}: argument {argument!r} is not declared")
        for output in self.outputs:
            for size in output.shape:
                parse_expression(size, known)
        for item in self.scratch:
            parse_expression(item.bytes, known)


@dataclass(frozen=True)
class OpManifest:
    """The whole of `kernels/ops.json`."""

    ops: tuple[Op, ...]
    version: int = 1

    def __post_init__(self) -> None:
        if self.version != 1:
            raise ProtocolError(f"ops.json has version {self.version}; this judge knows version 1")
        names = [op.name for op in self.ops]
        launchers = [op.launcher for op in self.ops]
        if not names or len(set(names)) != len(names) or len(set(launchers)) != len(launchers):
            raise ProtocolError("ops.json: op names and launchers must be unique, one op at least")


def parse_manifest(text: bytes | str) -> OpManifest:
    """Read `kernels/ops.json`; raises `ProtocolError` with a sentence that names the place."""
    return from_json(OpManifest, text)


def check_name(name: str) -> str:
    """Return a name that is safe in C, C++ and Python, or raise `ProtocolError`."""
    if not _NAME.fullmatch(name):
        raise ProtocolError(f"name {name[:60]!r}: use letters, digits and '_', a letter first")
    return name


def expression_names(op: Op) -> frozenset[str]:
    """Names that expressions of this op may use: `x.0` … by `ndim`, `x.numel`, int inputs."""
    names: set[str] = set()
    for item in op.inputs:
        if item.kind is InputKind.INT:
            names.add(item.name)
        if item.kind is InputKind.TENSOR:
            names.add(f"{item.name}.numel")
            names.update(
                f"{item.name}.{axis}" for axis in range(16 if item.ndim is None else item.ndim)
            )
    return frozenset(names)


def parse_expression(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """Split an integer expression into tokens; raises `ProtocolError` if it is not well formed."""
    tokens: list[str] = []
    position = 0
    stripped = text.strip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise ProtocolError(f"expression {text[:60]!r}: unexpected {stripped[position]!r}")
        tokens.append(match.group(match.lastindex or 0))
        position = match.end()
    rest = _parse_sum(tokens, 0, known, text)
    if rest != len(tokens):
        raise ProtocolError(f"expression {text[:60]!r}: unexpected {tokens[rest]!r}")
    return tuple(tokens)


def _parse_sum(tokens: list[str], at: int, known: frozenset[str], text: str) -> int:
    at = _parse_product(tokens, at, known, text)
    while at < len(tokens) and tokens[at] in "+-":
        at = _parse_product(tokens, at + 1, known, text)
    return at


def _parse_product(tokens: list[str], at: int, known: frozenset[str], text: str) -> int:
    at = _parse_atom(tokens, at, known, text)
    while at < len(tokens) and tokens[at] in "*/":
        at = _parse_atom(tokens, at + 1, known, text)
    return at


def _parse_atom(tokens: list[str], at: int, known: frozenset[str], text: str) -> int:
    if at >= len(tokens):
        raise ProtocolError(f"expression {text[:60]!r} ends too early")
    word = tokens[at]
    if word == "(":
        at = _parse_sum(tokens, at + 1, known, text)
        if at >= len(tokens) or tokens[at] != ")":
            raise ProtocolError(f"expression {text[:60]!r}: ')' is missing")
        return at + 1
    if word.isdigit() or word in known:
        return at + 1
    raise ProtocolError(f"expression {text[:60]!r}: {word!r} is not known here")
