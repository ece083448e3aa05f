"""What a person does on the pages, and what a test reads off them."""

from __future__ import annotations

import time

from playwright.sync_api import Page

from launch.seed import EXAMPLES

FINAL = ("Finished", "Failed", "Stopped", "Crashed")
SESSION_S = 900.0
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


def session_id(page: Page) -> str:
    return page.locator("[data-live]").get_attribute("data-session") or ""


def state(page: Page) -> str:
    return page.locator("[data-show=state]").inner_text().strip()


def cursor(page: Page) -> int:
    return int(page.locator("[data-live]").get_attribute("data-seq") or 0)


def wait_for_news(page: Page, count: int = 1) -> None:
    """Wait until some more events have come in, without a reload."""
    page.wait_for_function(
        "at => Number(document.querySelector('[data-live]').dataset.seq) >= at",
        arg=cursor(page) + count,
        timeout=120_000,
    )


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


def stop(page: Page) -> None:
    """Press the button and wait until the session has stopped."""
    page.get_by_role("button", name="Stop").click()
    assert wait_until_over(page, 60) == "Stopped"
