"""Messages come from processes that nobody trusts; the codec lets through only what was agreed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from workers.protocol.codec import Json, ProtocolError, from_data, from_json, to_json


@dataclass(frozen=True)
class Inner:
    ratio: float


@dataclass(frozen=True)
class Message:
    name: str
    count: int = 0
    inner: Inner | None = None
    pair: tuple[int, str] = (1, "one")
    many: tuple[Inner, ...] = ()
    table: dict[str, int] = field(default_factory=dict)
    open: Json = None


def test_equal_messages_have_equal_bytes():
    first = Message("a", table={"x": 1, "y": 2})
    second = Message("a", table={"y": 2, "x": 1})
    assert to_json(first) == to_json(second)


def test_it_reads_back_what_it_wrote():
    message = Message(
        "ä", 3, Inner(0.5), (2, "two"), (Inner(1.0),), {"k": 4}, {"any": [1, None, "x"]}
    )
    assert from_json(Message, to_json(message)) == message


def test_a_whole_number_may_stand_where_a_float_is_meant():
    message = from_json(Message, '{"name":"a","inner":{"ratio":2}}')
    assert message.inner == Inner(2.0)
    assert isinstance(message.inner.ratio, float)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_it_refuses_to_write_what_json_cannot_hold(value: float):
    with pytest.raises(ProtocolError, match="NaN or infinity"):
        to_json(Message("a", inner=Inner(value)))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_it_refuses_to_read_nan_and_infinity(value: str):
    with pytest.raises(ProtocolError, match="is not allowed"):
        from_json(Message, f'{{"name":"a","inner":{{"ratio":{value}}}}}')


def test_it_refuses_a_number_that_overflows_to_infinity():
    with pytest.raises(ProtocolError):
        from_json(Message, '{"name":"a","inner":{"ratio":1e999}}')


def test_it_refuses_to_write_other_types():
    with pytest.raises(ProtocolError, match="may not hold a set"):
        to_json(Message("a", open={1, 2}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"name":1}', "Message.name"),
        ('{"name":"a","count":"1"}', "Message.count"),
        ('{"name":"a","count":true}', "Message.count"),
        ('{"name":"a","count":1.5}', "Message.count"),
        ('{"name":"a","inner":{"ratio":"1"}}', "Message.inner.ratio"),
        ('{"name":"a","inner":[]}', "Message.inner"),
        ('{"name":"a","pair":[1]}', "Message.pair"),
        ('{"name":"a","pair":["1","one"]}', r"Message.pair\[0\]"),
        ('{"name":"a","many":{}}', "Message.many"),
        ('{"name":"a","many":[{"ratio":1},{}]}', r"Message.many\[1\]"),
        ('{"name":"a","table":{"k":null}}', "Message.table.k"),
        ('["name"]', "Message"),
        ("null", "Message"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"name":"a"} trailing', "not JSON"),
    ],
)
def test_it_says_where_a_message_is_wrong(text: str, where: str):
    with pytest.raises(ProtocolError, match=where):
        from_json(Message, text)


def test_it_refuses_messages_that_are_nested_without_end():
    with pytest.raises(ProtocolError):
        from_json(Message, "[" * 100_000)


def test_a_long_unknown_name_is_shortened_in_the_message():
    with pytest.raises(ProtocolError) as refusal:
        from_data(Message, {"name": "a", "x" * 1000: 1})
    assert len(str(refusal.value)) < 200
