"""A real site with all its processes, and a real browser that nobody has seen yet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from launch.checks import CHROMIUM_NAMES
from launch.listener import signed_in_cookie
from launch.own_site import OwnSite, own_site

ARGUMENTS = [
    "--no-sandbox",  # CI runs as root in a container, where Chromium's own sandbox cannot start.
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("no Chromium was found: apt-get install chromium")
    return str(found)


@pytest.fixture(scope="session")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    """Started once for all tests of this folder."""
    with own_site(tmp_path_factory.mktemp("site"), os.environ) as running:
        yield running


@pytest.fixture(scope="session")
def cookie(site: OwnSite) -> str:
    """The cookie of somebody who came by the one-time link."""
    return signed_in_cookie(site.entry)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    # Per module: while it runs, no other test of this thread could use an event loop.
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        running.close()


class Pages:
    """Makes pages, each in a browser that knows nothing, and writes down what they complain about."""

    def __init__(self, browser: Browser, site: OwnSite, cookie: str) -> None:
        self.browser = browser
        self.site = site
        self.cookie = cookie
        self.contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        # A connection that a test cuts is reported by the browser itself; that is no fault of the page.
        self.expected = ["net::ERR"]

    def __call__(self, *, identity: str = "", width: int = 1360, **options: object) -> Page:
        """A page of a person who is signed in by the given cookies, or by those of the test run."""
        context = self.browser.new_context(
            base_url=self.site.url,
            viewport={"width": width, "height": 860},
            **options,  # type: ignore[arg-type]
        )
        self.contexts.append(context)
        context.set_default_timeout(20_000)
        for part in (identity or self.cookie).split("; "):
            name, _, value = part.partition("=")
            context.add_cookies([{"name": name, "value": value, "url": self.site.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._note)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(part in message.text for part in self.expected):
            self.complaints.append(message.text)


@pytest.fixture
def new_page(browser: Browser, site: OwnSite, cookie: str) -> Iterator[Pages]:
    """Makes pages; the test fails when one of them complained in its console."""
    pages = Pages(browser, site, cookie)
    yield pages
    for context in pages.contexts:
        context.close()
    assert not pages.complaints, pages.complaints


@pytest.fixture
def page(new_page: Pages) -> Page:
    return new_page()
