"""The main job in a browser: paste, watch live, refresh in the middle, verdict, download."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser import driving
from tests.browser.conftest import Pages


def test_a_pasted_model_is_optimised_before_ones_eyes_and_taken_home(
    page: Page, new_page: Pages, tmp_path: Path
) -> None:
    driving.paste(page, driving.example("masked_softmax"), title="Softmax of the browser test")
    address = page.url
    watch_refresh_and_lose_the_tab(page)

    # A lost tab: the session goes on, and another tab shows all of it.
    before = driving.shown(page)
    page.close()
    other = new_page()
    other.goto(address)
    assert set(before) <= set(driving.shown(other))

    assert driving.wait_until_over(other) == "Finished"
    look_at_the_end(other)
    read_the_verdict(other)
    other.goto(address)
    take_it_home(other, tmp_path)


def watch_refresh_and_lose_the_tab(page: Page) -> None:
    expect(page.locator("[data-show=state]")).to_contain_text(
        re.compile("Queued|Running"), timeout=20_000
    )
    # Nothing is reloaded here: turns come in over the socket.
    expect(page.locator("[data-turn='2']")).to_be_visible(timeout=120_000)
    assert driving.state(page) == "Running"
    seen, text = driving.shown(page), driving.timeline(page)
    assert len(seen) == len(set(seen))

    page.reload()
    again = driving.shown(page)
    assert set(seen) <= set(again)
    assert len(again) == len(set(again))
    assert text.split("Turn 2")[0] in driving.timeline(page)
    # It goes on where it was, without another reload.
    driving.wait_for_news(page)


def look_at_the_end(page: Page) -> None:
    """What came over the socket and what the server draws afterwards is the same page."""
    best = page.locator("[data-show=best]").inner_text()
    assert float(best.rstrip("×")) > 1.0  # noqa: RUF001
    assert re.fullmatch(r"[\d.]+ to [\d.]+", page.locator("[data-show=best-interval]").inner_text())
    expect(page.locator("[data-plot] circle")).not_to_have_count(0)
    expect(page.get_by_role("tab", name="model_new.py")).to_be_visible()
    expect(page.locator("[data-stop]")).to_have_count(0)
    numbers, text = driving.shown(page), driving.timeline(page)
    assert len(numbers) == len(set(numbers))
    page.reload()
    assert driving.shown(page)[: len(numbers)] == numbers
    assert driving.timeline(page).startswith(text)
    assert page.locator("[data-show=best]").inner_text() == best


def read_the_verdict(page: Page) -> None:
    page.get_by_role("link", name="Verdict", exact=True).first.click()
    page.wait_for_url("**/evaluations/*/")
    expect(page.locator("h1")).to_contain_text("Passed")
    figures = page.locator(".figures").inner_text()
    assert "Against eager" in figures
    assert ": faster" in figures
    for heading in ("Correctness", "Raw blocks", "Whose work it is", "What this does not prove"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator("[data-blocks-plot] circle").first).to_be_visible()
    expect(page.locator("#correctness-title ~ *, .badge:has-text('Equal')").first).to_be_visible()


def take_it_home(page: Page, folder: Path) -> None:
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Source zip").click()
    download = waiting.value
    assert download.suggested_filename.endswith(".zip")
    path = folder / download.suggested_filename
    download.save_as(path)
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert any(name.endswith(".cpp") for name in names)
    assert any(name.endswith("README.md") for name in names)
