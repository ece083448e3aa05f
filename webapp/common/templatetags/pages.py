"""Tags and filters that every page uses: icons, status badges, numbers with units."""

from __future__ import annotations

from collections.abc import Callable

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.common import formats
from webapp.common.source_view import anchor_of
from webapp.common.words import word_for

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """A symbol of static/img/icons.svg. It is decoration: the word beside it carries the meaning."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>',
        static("img/icons.svg"),
        name,
    )


@register.simple_tag
def badge(family: str, state: str, size: str = "") -> SafeString:
    """A state as icon and word; static/js/timeline.js changes it by its data attributes."""
    word = word_for(family, str(state))
    return format_html(
        '<span class="badge{}" data-badge="{}" data-tone="{}">{}<span>{}</span></span>',
        f" {size}" if size else "",
        family,
        word.tone,
        icon(word.icon),
        word.word,
    )


def _number_filter(name: str, write: Callable[[float], str]) -> None:
    """A filter that writes a dash where there is no number (templates give "" for what is missing)."""

    def show(value: float | str | None) -> str:
        return write(float(value)) if isinstance(value, (int, float)) else formats.NO_VALUE

    register.filter(name, show)


_number_filter("ratio", formats.ratio)
_number_filter("milliseconds", formats.milliseconds)
_number_filter("seconds", formats.seconds)
_number_filter("bytes_size", formats.bytes_size)
_number_filter("flop_count", formats.flop_count)
_number_filter("scientific", formats.scientific)
_number_filter("percent", lambda value: f"{value * 100:.0f} %")


@register.simple_tag
def interval(low: float | str | None, high: float | str | None) -> str:
    """The ends of a 95 % interval; empty where there is none."""
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        return formats.interval(low, high)
    return ""


@register.simple_tag
def line_anchor(path: str, line: int | None) -> str:
    """The HTML id of a line, or of its file where no line is named."""
    return f"{anchor_of(path)}-{line}" if line else anchor_of(path)
