"""Makes the pictures of the dashboard in the documentation, with the browser of the tests: ``make docs-pictures``."""

from __future__ import annotations

import base64
import tempfile
import time
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from headrace.client import running
from headrace.server.settings import RestSettings
from tests.docs.documents import DOCS
from tests.server.browsing import chromium, page_of
from tests.server.serving import Served
from tests.server.shop import Orders, settings_of, submit
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = DOCS / "images"

HERE = Path(__file__).parent

ANYWHERE = """
(names) => {
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    for (const [here, anywhere] of names) {
      all.currentNode.data = all.currentNode.data.replaceAll(here, anywhere);
    }
  }
}
"""
"""Gives folders and machines other names: pictures are the same wherever they are made."""

_PATIENCE_MILLIS = 120_000

_SECONDS = 75.0
"""The time for which a job has run when it is shown: rates are over the last minute."""


def picture(page: Page, name: str, selector: str | None = None, height: float | None = None) -> None:
    """Write what a window shows, or an element of it, as WebP.

    Args:
        page: the page.
        name: the name of the file.
        selector: the element; None for the window.
        height: the most that is shown of it.
    """
    box: Any = {"x": 0, "y": 0, **(page.viewport_size or {})}
    if selector is not None:
        box = page.locator(selector).bounding_box()
        box = {"x": box["x"] - 12, "y": box["y"] - 12, "width": box["width"] + 24, "height": box["height"] + 24}
    box["y"] += page.evaluate("scrollY")
    box["height"] = min(box["height"], height or box["height"])
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": 82, "clip": {**box, "scale": 1}, "captureBeyondViewport": True}
    data = session.send("Page.captureScreenshot", options)["data"]
    (IMAGES / f"{name}.webp").write_bytes(base64.b64decode(data))


def shown(browser: Browser, wrong: str, seconds: float) -> None:
    """Run a job of the shop, and take its pictures."""
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        folder = Path(name)
        served, orders = Served(RestSettings("127.0.0.1", (0,), refresh_millis=1_000)), Orders(folder, wrong)
        settings = settings_of(folder)
        client = submit(folder, orders.log, wrong, settings)
        served.serve(client, settings)
        wait_for(lambda: client.snapshot().latest)
        if wrong == "nothing":
            client.trigger_savepoint().result(timeout=PATIENCE)
        time.sleep(seconds)
        address = f"{served.server.address}/dashboard/jobs/{client.get_job_id()}"
        names = [[str(folder), "/data/shop"], [folder.name, "shop"], [str(HERE), "."], [gethostname(), "worker-1"]]
        for width, height, scheme, take in _WINDOWS[wrong]:
            with page_of(browser, width, height, color_scheme=scheme) as visit:
                visit.page.set_default_timeout(_PATIENCE_MILLIS)
                visit.page.goto(address)
                visit.page.wait_for_selector("canvas")
                _stand_still(visit.page, names)
                take(visit.page)
                for shown_as, place in _PAGES.get((wrong, width), {}).items():
                    visit.page.goto(place(visit.page, address))
                    _stand_still(visit.page, names)
                    picture(visit.page, shown_as, "main", 760)
                visit.errors.clear()
        running.cancel_all()
        orders.close()
        served.server.close()


def _stand_still(page: Page, names: list[list[str]]) -> None:
    """Have a page show what it shows, with other names for what is of this machine."""
    page.wait_for_timeout(1_500)
    if page.locator("#pause").is_visible():
        page.click("#pause")
        page.wait_for_timeout(500)
    page.evaluate(ANYWHERE, names)


def _newest_checkpoint(page: Page, address: str) -> str:
    page.goto(address)
    link = page.locator("#epochs-table th a").first.get_attribute("href") or ""
    return address.partition("/dashboard")[0] + link


def _topics(page: Page, address: str) -> str:
    place = f"{address.partition('/dashboard')[0]}/dashboard/topics"
    page.goto(place)
    page.wait_for_timeout(8_000)  # rates are there from the second look on
    return place


_PAGES: dict[tuple[str, int], dict[str, Any]] = {
    ("nothing", 1280): {"dashboard-checkpoint": _newest_checkpoint, "dashboard-topics": _topics},
}
"""Other pages than that of the job, by what is wrong with it and the width of the window."""


def _whole(page: Page) -> None:
    picture(page, "dashboard-job")
    for section in ("epochs", "event-time", "state", "lineage"):
        picture(page, f"dashboard-{section}", f"#{section}", 760)
    page.click("#do-stop")
    page.wait_for_selector("dialog[open]")
    page.evaluate("document.querySelector('dialog input[name=directory]').placeholder = '/data/shop/savepoints'")
    page.evaluate("document.querySelector('dialog .hint').textContent = 'Left empty, it is /data/shop/savepoints.'")
    picture(page, "dashboard-question", "dialog")


_WINDOWS: dict[str, list[tuple[int, int, Any, Any]]] = {
    "nothing": [
        (1280, 1060, "light", _whole),
        (390, 844, "light", lambda page: picture(page, "dashboard-small")),
    ],
    "skew": [(1280, 900, "dark", lambda page: picture(page, "dashboard-skew", None, 560))],
    "idle": [(1280, 900, "light", lambda page: picture(page, "dashboard-idle", None, 420))],
    "record": [(1280, 900, "light", lambda page: picture(page, "dashboard-failure", "#failures", 420))],
}


def main() -> None:
    with chromium() as browser:
        for wrong in _WINDOWS:
            shown(browser, wrong, _SECONDS if wrong == "nothing" else 35.0)
    for file in sorted(IMAGES.glob("dashboard-*.webp")):
        print(f"{file.name}: {file.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
