"""What a person does on the pages, and what a test reads off them."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import Page

from launch.seed import EXAMPLES

FINAL = ("Finished", "Failed", "Stopped", "Crashed")
SESSION_S = 420.0
"""A whole session of the built-in author, on a host that is busy with other things."""


def example(name: str) -> str:
    return (EXAMPLES / name / "model.py").read_text()


def paste(page: Page, model: str, *, title: str = "", optimise: bool = True) -> None:
    """Fill the upload form and send it."""
    page.goto("/problems/new/")
    page.get_by_label("model.py", exact=True).fill(model)
    page.get_by_label("Title").fill(title)
    page.get_by_label("Optimise at once").set_checked(optimise)
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/sessions/*/" if optimise else "**/problems/*-*/")


def state(page: Page) -> str:
    return page.locator("[data-show=state]").inner_text().strip()


def cursor(page: Page) -> int:
    return int(page.locator("[data-live]").get_attribute("data-seq") or 0)


def shown(page: Page) -> list[int]:
    """Sequence numbers of everything that the timeline shows, in order of the page."""
    numbers: list[int] = page.eval_on_selector_all(
        "[data-timeline] [data-seq]", "items => items.map(item => Number(item.dataset.seq))"
    )
    return numbers


def timeline(page: Page) -> str:
    return page.locator("[data-timeline]").inner_text()


def wait_until_over(page: Page, limit_s: float = SESSION_S) -> str:
    """Wait for the session's end on the page; returns the word of its state."""
    end = time.monotonic() + limit_s
    while (word := state(page)) not in FINAL:
        assert time.monotonic() < end, (
            f"still {word} after {limit_s:.0f} s: {timeline(page)[-600:]}"
        )
        page.wait_for_timeout(200)
    return word


def screenshot(page: Page, folder: Path, name: str) -> None:
    """Kept where pytest keeps temporary files, for looking at after a failure."""
    page.screenshot(path=folder / f"{name}.png", full_page=True)
