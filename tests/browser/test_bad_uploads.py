"""Bad uploads through a whole site: the sentence reaches the person, and the text can be changed and sent again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from launch.own_site import OwnSite
from tests.browser import driving
from tests.workers.runner.uploads import UPLOADS, model

CHECK_S = 240.0


def checked(site: OwnSite, problem: dict[str, Any]) -> dict[str, Any]:
    end = time.monotonic() + CHECK_S
    while problem["state"] == "checking":
        assert time.monotonic() < end, problem
        time.sleep(0.5)
        problem = site.client.get(f"problems/{problem['id']}")
    return problem


@pytest.mark.parametrize(
    "name",
    [
        "crash at import",
        "exit without a word",
        "100 GB in forward",
        "forks without end",
        "random",
        "sparse",
        "an argument too few",
    ],
)
def test_rest_tells_what_the_judge_says(site: OwnSite, name: str) -> None:
    upload = UPLOADS[name]
    sent = {"files": {"model.py": upload.content.decode() + f"# {name}\n"}, "title": name}
    problem = checked(site, site.client.post("problems", sent))
    assert (problem["state"], problem["inspection"]) == ("refused", None)
    assert upload.says in problem["reason"]


def test_a_refused_model_is_changed_and_sent_again(page: Page) -> None:
    driving.paste(page, model(forward="return torch.ones(3)"), title="Constant at first")
    assert driving.wait_until_over(page, CHECK_S) == "Failed"
    expect(page.locator("[data-show=reason]")).to_contain_text("does not depend on the inputs")
    expect(page.locator("[data-show=compile-interval]")).to_have_text("not measured")
    expect(page.get_by_text("No files were written.")).to_be_visible()
    expect(page.get_by_role("link", name="Change the file and upload it again")).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name="Change the file and upload it again")).to_be_visible()
    page.get_by_role("link", name="Problem", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("does not depend on the inputs")
    page.get_by_role("link", name="Change the file and upload it again").click()
    text = page.get_by_label("model.py", exact=True)
    assert "return torch.ones(3)" in text.input_value()
    expect(page.get_by_label("Title")).to_have_value("Constant at first")
    text.fill(model(forward="return x * 3"))
    page.get_by_label("Optimise at once").set_checked(False)
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/problems/*-*/")
    expect(page.get_by_role("button", name="Optimise")).to_be_visible(timeout=CHECK_S * 1000)
