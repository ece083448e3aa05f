"""What only a browser can tell: widths, themes, the keyboard, the upload form's script, no script at all."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from launch.own_site import OwnSite
from tests.browser import driving
from tests.browser.conftest import Pages


@pytest.fixture(scope="module")
def addresses(site: OwnSite) -> Iterator[dict[str, str]]:
    """A problem of this site with a session on it."""
    files = {
        "model.py": driving.example("residual_layer_norm").replace("4096", "1024") + "# wide\n"
    }
    problem = site.client.post("problems", {"files": files, "title": "W" * 90})
    session = site.client.post("sessions", {"problem": problem["id"], "author": "codegen"})
    yield {
        "list": "/",
        "upload": "/problems/new/",
        "problem": f"/problems/{problem['id']}/",
        "live": f"/sessions/{session['id']}/",
        "sign-in": "/accounts/login/",
    }
    site.client.post(f"sessions/{session['id']}/stop", {})


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_scrolls_sideways_on_a_phone(
    new_page: Pages, addresses: dict[str, str], scheme: str
) -> None:
    page = new_page(width=375, color_scheme=scheme)
    wide = {}
    for name, address in addresses.items():
        page.goto(address)
        page.wait_for_timeout(200)
        wide[name] = overflow(page)
    assert all(excess <= 0 for excess in wide.values()), wide


def test_the_theme_follows_the_system_until_it_is_chosen(new_page: Pages) -> None:
    page = new_page(color_scheme="dark")
    page.goto("/")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    button = page.get_by_role("button", name="Theme: automatic")
    button.click()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    light = page.evaluate(background)
    assert light != dark
    page.reload()
    assert page.evaluate(background) == light


def test_the_pages_can_be_used_by_keyboard(page: Page) -> None:
    page.goto("/problems/new/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    first_example = page.get_by_role("button", name="Bias, GELU, scale, clamp")
    expect(first_example).to_be_focused()
    outline = first_example.evaluate("button => getComputedStyle(button).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_label("model.py", exact=True)).to_have_value(
        driving.example("bias_gelu_scale")
    )


def test_an_example_takes_the_place_of_typed_text_and_gives_it_back(page: Page) -> None:
    page.goto("/problems/new/")
    text = page.get_by_label("model.py", exact=True)
    text.fill("class Mine: pass")
    page.get_by_role("button", name="Gated RMS norm").click()
    expect(text).to_have_value(driving.example("gated_rms_norm"))
    page.get_by_role("button", name="Masked softmax with temperature").click()
    page.get_by_role("button", name="Bring it back").click()
    expect(text).to_have_value("class Mine: pass")


def test_what_an_example_filled_in_goes_when_its_text_is_replaced(page: Page) -> None:
    page.goto("/problems/new/")
    text, spec = page.get_by_label("model.py", exact=True), page.locator("#id_spec")
    button = page.get_by_role("button", name="Gated RMS norm")
    button.click()
    given = spec.input_value()
    assert "threads" in given or "title" in given
    text.fill(driving.example("gated_rms_norm").replace("1e-6", "1e-5"))
    expect(spec).to_have_value(given)
    expect(button).to_have_attribute("aria-pressed", "true")
    text.fill("class Mine: pass")
    expect(spec).to_have_value("")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    spec.fill("threads = 1  # mine")
    text.fill("class Mine: pass")
    expect(spec).to_have_value("threads = 1  # mine")


def test_a_refused_field_comes_into_view_on_a_phone(new_page: Pages) -> None:
    page = new_page(width=375)
    page.goto("/problems/new/")
    page.get_by_label("model.py", exact=True).fill(driving.example("masked_softmax"))
    threads = page.get_by_label("CPU threads for both sides")
    too_many = len(os.sched_getaffinity(0)) + 1
    threads.fill(str(too_many))
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text(f"{too_many} threads are asked for")
    expect(threads).to_be_focused()
    expect(threads).to_be_in_viewport()


def test_text_that_is_too_large_stays_where_it_is(page: Page) -> None:
    page.goto("/problems/new/")
    page.get_by_label("model.py", exact=True).evaluate("area => (area.value = '#'.repeat(300000))")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("300,000 bytes; 262,144 are allowed")
    size = "area => area.value.length"
    assert page.get_by_label("model.py", exact=True).evaluate(size) == 300_000


def test_a_chosen_file_can_be_read_before_it_is_sent(page: Page) -> None:
    page.goto("/problems/new/")
    chooser = page.locator("input[type=file]")
    chooser.set_input_files({"name": "mine.py", "mimeType": "text/x-python", "buffer": b"x = 1\n"})
    expect(page.get_by_label("model.py", exact=True)).to_have_value("x = 1\n")
    chooser.set_input_files({"name": "w.pt", "mimeType": "", "buffer": b"\xff\xfe\x00"})
    expect(page.get_by_text("w.pt is not UTF-8 text")).to_be_visible()
    expect(page.get_by_label("model.py", exact=True)).to_have_value("x = 1\n")


def test_an_error_keeps_what_was_typed(new_page: Pages) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/problems/new/")
    page.get_by_label("model.py", exact=True).fill("\n\nclass Model: pass\n")
    page.get_by_label("Title").fill("Still here")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert")).to_contain_text("model.py")
    expect(page.get_by_label("model.py", exact=True)).to_have_value("\n\nclass Model: pass\n")
    expect(page.get_by_label("Title")).to_have_value("Still here")


def test_without_a_script_the_live_page_shows_what_happened(
    new_page: Pages, addresses: dict[str, str]
) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(addresses["live"])
    expect(page.locator("[data-turn='1']")).to_be_visible(timeout=120_000)
    expect(page.get_by_role("heading", name="Turn 1")).to_be_visible()


def test_a_problem_under_check_becomes_ready_before_ones_eyes(page: Page) -> None:
    model = driving.example("bias_gelu_scale").replace("2048", "1024") + "# checked\n"
    driving.paste(page, model, title="Check me", optimise=False)
    expect(page.get_by_role("button", name="Optimise")).to_be_visible(timeout=120_000)
    expect(page.locator(".figures")).to_contain_text("Eager, one call")
    expect(page.get_by_role("heading", name="Operators")).to_be_visible()
    page.locator("#operators-title").scroll_into_view_if_needed()
    page.locator("[data-part=operators] a").first.click()
    expect(page.locator(".code-line.marked")).to_have_count(1)
