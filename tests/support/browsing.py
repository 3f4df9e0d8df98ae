"""A real browser for the tests of pages; where there is none, they skip."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Tab:
    """A page in the browser that remembers what it should not have done: messages, errors, foreign addresses."""

    def __init__(
        self, browser: Any, address: str, ready: str = "html[data-drawn]", width: int = 1200, **options: Any
    ) -> None:  # fmt: skip
        self.wrong: list[str] = []
        self.own = ("data:", "blob:", address if address.startswith("http") else "file:")
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(
            120_000
        )  # without a graphics card a page takes half a minute on a busy machine
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(address)
        self.page.wait_for_selector(ready)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.own):
            self.wrong.append(request.url)

    def marks(self, chart: str, selector: str = "svg path") -> list[str]:
        """The shapes, or the texts, of a chart in view."""
        found: list[str] = self.page.locator(f"main:not([hidden]) [data-chart={chart}] {selector}").evaluate_all(
            "all => all.map(one => one.getAttribute('d') ?? one.textContent)"
        )  # fmt: skip
        return found

    def changes(self, chart: str, act: Any, selector: str = "svg path") -> None:
        """Doing something draws a chart anew."""
        before = self.marks(chart, selector)
        act()
        for _ in range(100):
            if self.marks(chart, selector) != before:
                return
            self.page.wait_for_timeout(30)
        raise AssertionError(f"{chart} stays as it is")
