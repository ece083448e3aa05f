"""Numbers for people: units, thousands, as many digits as mean something."""

from __future__ import annotations

import math

TIMES = "\N{MULTIPLICATION SIGN}"
NO_VALUE = "\N{EN DASH}"
"""Stands where there is no number."""


def significant(value: float, digits: int = 3) -> str:
    """Three significant digits without an exponent: 0.0336, 2.66, 31.5, 1,240."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def ratio(value: float) -> str:
    """A speed-up: two decimals below 10, one below 100."""
    places = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{places}f}{TIMES}"


def interval(low: float, high: float) -> str:
    """The ends of a speed-up's 95 % interval, with the digits of the larger one."""
    places = 2 if high < 10 else 1 if high < 100 else 0
    if f"{low:.{places}f}" == f"{high:.{places}f}":
        places += 1
    return f"{low:,.{places}f} to {high:,.{places}f}"


def milliseconds(value: float) -> str:
    """A time per call or a short duration, in the unit that needs no zeros."""
    if value < 0.001:
        return "under 1 µs"
    if value < 0.1:
        return f"{significant(value * 1000)} µs"
    if value < 1000:
        return f"{significant(value)} ms"
    return f"{significant(value / 1000)} s"


def seconds(value: float) -> str:
    """How long something took by the wall clock."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def bytes_size(value: float) -> str:
    """A size in binary units."""
    size = float(value)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{significant(size)} {unit}"
        size /= 1024
    return f"{significant(size)} GiB"


def flop_count(value: float) -> str:
    """Floating-point operations; a dash where an operator computes nothing."""
    if value == 0:
        return NO_VALUE
    for unit in ("", "k", "M", "G"):
        if abs(value) < 1000:
            return f"{value:.0f} FLOP" if not unit else f"{significant(value)} {unit}FLOP"
        value /= 1000
    return f"{significant(value)} TFLOP"


def scientific(value: float) -> str:
    """An error or a limit: two significant digits with an exponent, such as 3.1e-07."""
    return "0" if value == 0 else f"{value:.1e}"


def shape(sizes: tuple[int, ...], dtype: str) -> str:
    """A tensor's type, such as `float32[64, 4096]`."""
    return f"{dtype}[{', '.join(str(size) for size in sizes)}]"
