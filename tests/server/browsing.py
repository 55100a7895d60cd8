"""A real Chromium, Debian's, for the tests of pages."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


@contextmanager
def chromium() -> Iterator[Browser]:
    """Inside, the browser runs; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Browser, width: int = 1440, height: int = 900, **options: Any) -> Iterator[Visit]:
    """Inside, a window is open; what goes wrong on its pages fails the test at the end."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce", **options)
    page = context.new_page()
    page.set_default_timeout(60_000)
    visit = Visit(page)
    try:
        yield visit
    finally:
        context.close()
    assert visit.errors == []


class Visit:
    """A window, and what has happened in it.

    Attributes:
        page: its page.
        errors: what scripts have raised, and what the browser has refused.
        asked: the addresses that it has asked for.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.asked: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._told)
        page.on("request", lambda request: self.asked.append(request.url))

    def _told(self, message: Any) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.errors.append(message.text)
