"""Frozen dataclasses to JSON and back, strictly.

Every message type of this package is a frozen dataclass whose fields are scalars, enums, other
messages, tuples, string-keyed mappings or plain JSON values. `to_json` writes canonical JSON (sorted
keys, no spaces), so equal messages have equal bytes and digests. `from_json` refuses unknown fields,
missing fields and wrong types with a `ProtocolError` that names the path, because messages also come
from processes that nobody trusts.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union, cast

# What JSON can hold. Used for graph arguments and event bodies, whose shape is open by design.
Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007

T = TypeVar("T")

MAX_DEPTH = 64


class ProtocolError(ValueError):
    """A message does not have the agreed form; the text says where and why and is safe to show."""


def to_data(value: object) -> Json:
    """Turn a message into JSON-able data. Floats that JSON cannot hold are refused."""
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return cast(Json, value)
    if isinstance(value, enum.Enum):
        return cast(Json, value.value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ProtocolError("a message may not hold NaN or infinity")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_data(item) for item in value]
    raise ProtocolError(f"a message may not hold a {type(value).__name__}")


def to_json(value: object) -> bytes:
    """Write a message as canonical JSON bytes."""
    data = to_data(value)
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def from_json(kind: type[T], text: bytes | str) -> T:
    """Read a message of the given type from JSON bytes."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{kind.__name__}: not JSON ({error})") from error
    return from_data(kind, data)


def from_data(kind: type[T], data: Json) -> T:
    """Read a message of the given type from JSON data."""
    return cast(T, _decode(kind, data, kind.__name__, 0))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return value


@functools.cache
def _field_types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, data: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ProtocolError(f"{path}: nested too deeply")
    if kind is Any or _is_open(kind):
        return data
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(kind, data, path, depth)
    if origin is tuple:
        return _decode_tuple(kind, data, path, depth)
    if origin in (dict, Mapping):
        return _decode_mapping(kind, data, path, depth)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _decode_enum(kind, data, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(cast(type, kind), data, path, depth)
    return _decode_scalar(kind, data, path)


def _is_open(kind: Any) -> bool:
    """Whether a type is `Json`. Resolving a field's annotation unfolds it, so it is known by its form."""
    options = {typing.get_origin(option) for option in typing.get_args(kind)}
    return typing.get_origin(kind) in (Union, types.UnionType) and {list, dict} <= options


def _decode_union(kind: Any, data: Any, path: str, depth: int) -> Any:
    options = typing.get_args(kind)
    if data is None and type(None) in options:
        return None
    chosen = [option for option in options if option is not type(None)]
    if len(chosen) == 1:
        return _decode(chosen[0], data, path, depth)
    for option in chosen:
        if isinstance(option, type) and type(data) is option:
            return data
    raise ProtocolError(f"{path}: unexpected {type(data).__name__}")


def _decode_tuple(kind: Any, data: Any, path: str, depth: int) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ProtocolError(f"{path}: expected a list")
    args = typing.get_args(kind)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(
            _decode(args[0], item, f"{path}[{i}]", depth + 1) for i, item in enumerate(data)
        )
    if len(args) != len(data):
        raise ProtocolError(f"{path}: expected {len(args)} items, got {len(data)}")
    return tuple(
        _decode(arg, item, f"{path}[{i}]", depth + 1)
        for i, (arg, item) in enumerate(zip(args, data, strict=True))
    )


def _decode_mapping(kind: Any, data: Any, path: str, depth: int) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ProtocolError(f"{path}: expected an object")
    value_kind = typing.get_args(kind)[1]
    return {
        key: _decode(value_kind, item, f"{path}.{key}", depth + 1) for key, item in data.items()
    }


def _decode_enum(kind: type[enum.Enum], data: Any, path: str) -> enum.Enum:
    try:
        return kind(data)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise ProtocolError(f"{path}: {str(data)[:40]!r} is none of {known}") from None


def _decode_dataclass(kind: type, data: Any, path: str, depth: int) -> Any:
    if not isinstance(data, dict):
        raise ProtocolError(f"{path}: expected an object")
    hints = _field_types(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise ProtocolError(f"{path}: unknown field {unknown[0][:40]!r}")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _decode(
                hints[field.name], data[field.name], f"{path}.{field.name}", depth + 1
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"{path}: field {field.name!r} is missing")
    try:
        return kind(**values)
    except ProtocolError:
        raise
    except ValueError as error:
        raise ProtocolError(f"{path}: {error}") from error


def _decode_scalar(kind: Any, data: Any, path: str) -> Any:
    if kind is float and type(data) in (int, float):
        return float(data)
    if kind in (int, str, bool) and type(data) is kind:
        return data
    name = getattr(kind, "__name__", str(kind))
    raise ProtocolError(f"{path}: expected {name}, got {type(data).__name__}")
