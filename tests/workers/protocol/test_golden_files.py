"""What was written yesterday is read today, and written with the same bytes."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil

import pytest

from tests.workers.protocol.messages import GOLDEN, MESSAGES
from workers import protocol
from workers.protocol.codec import ProtocolError, from_json, to_json

NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def test_every_message_has_its_golden_file():
    assert sorted(MESSAGES) == NAMES


def test_every_versioned_message_type_is_covered():
    types = set()
    for module in pkgutil.iter_modules(protocol.__path__):
        loaded = importlib.import_module(f"workers.protocol.{module.name}")
        for _, kind in inspect.getmembers(loaded, dataclasses.is_dataclass):
            if any(field.name == "version" for field in dataclasses.fields(kind)):
                types.add(kind)
    assert types - {type(message) for message in MESSAGES.values()} == set()


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_the_stored_form(name: str):
    expected = MESSAGES[name]
    assert from_json(type(expected), (GOLDEN / f"{name}.json").read_bytes()) == expected


@pytest.mark.parametrize("name", NAMES)
def test_it_writes_the_same_bytes(name: str):
    assert to_json(MESSAGES[name]) == (GOLDEN / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_it_refuses_an_unknown_field(name: str):
    data = json.loads((GOLDEN / f"{name}.json").read_text())
    with pytest.raises(ProtocolError, match="unknown field 'surprise'"):
        from_json(type(MESSAGES[name]), json.dumps({**data, "surprise": 1}))


@pytest.mark.parametrize("name", NAMES)
def test_it_refuses_a_missing_field(name: str):
    kind = type(MESSAGES[name])
    data = json.loads((GOLDEN / f"{name}.json").read_text())
    needed = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    for field in needed:
        short = {key: value for key, value in data.items() if key != field}
        with pytest.raises(ProtocolError, match=f"field '{field}' is missing"):
            from_json(kind, json.dumps(short))


@pytest.mark.parametrize("name", NAMES)
def test_it_refuses_every_field_with_another_type(name: str):
    kind = type(MESSAGES[name])
    data = json.loads((GOLDEN / f"{name}.json").read_text())
    for field, value in data.items():
        wrong = "text" if not isinstance(value, str) else ["list"]
        with pytest.raises(ProtocolError, match=f"{kind.__name__}.{field}"):
            from_json(kind, json.dumps({**data, field: wrong}))
