"""Numbers for people."""

from __future__ import annotations

import pytest

from webapp.common import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0336, "33.6 µs"),
        (0.25, "0.250 ms"),
        (0.0, "under 1 µs"),
        (2.663, "2.66 ms"),
        (31.5, "31.5 ms"),
        (1240, "1.24 s"),
    ],
)
def test_times_choose_the_unit_that_needs_no_zeros(value: float, text: str) -> None:
    assert formats.milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0024, "2 ms"), (3.61, "3.6 s"), (9.97, "10 s"), (59.6, "1 min 00 s"), (3660, "1 h 01 min")],
)
def test_durations_never_say_sixty_seconds(value: float, text: str) -> None:
    assert formats.seconds(value) == text


def test_an_interval_shows_that_it_has_two_ends() -> None:
    assert formats.interval(3.366, 3.458) == "3.37 to 3.46"
    assert formats.interval(3.411, 3.414) == "3.411 to 3.414"
    assert formats.interval(9.8, 12.1) == "9.8 to 12.1"


def test_sizes_and_work() -> None:
    assert formats.bytes_size(512) == "512 B"
    assert formats.bytes_size(25165824) == "24.0 MiB"
    assert formats.flop_count(0) == formats.NO_VALUE
    assert formats.flop_count(64) == "64 FLOP"
    assert formats.flop_count(50331648) == "50.3 MFLOP"
    assert formats.flop_count(2.5e13) == "25.0 TFLOP"
