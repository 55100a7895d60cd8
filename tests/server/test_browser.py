"""The dashboard in a real Chromium: scripts, charts, dialogs, keyboard, small windows, light and dark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client import running
from headrace.server.settings import RestSettings
from tests.server.browsing import Visit, chromium, page_of
from tests.server.serving import Served
from tests.server.shop import Orders, settings_of, submit
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = [pytest.mark.integration, pytest.mark.apart]

CONTRASTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parse(getComputedStyle(each).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return [255, 255, 255];
  };
  const LEFT_OUT = "svg, script, noscript, .visually-hidden, .skip";
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest(LEFT_OUT) || !element.checkVisibility()) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color).rgb), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${element.className || element.tagName}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(faint)];
}
"""

NAMELESS = """
() => [...document.querySelectorAll("a, button, input, select, summary")]
  .filter((each) => each.checkVisibility() && !(each.innerText || each.ariaLabel || each.labels?.length))
  .filter((each) => !each.querySelector("img"))
  .map((each) => each.outerHTML)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def opened(browser: Browser, served: Served, job: str, **options: Any) -> Any:
    return page_of(browser, base_url=served.server.address, **options), f"/dashboard/jobs/{job}"


def test_a_page_follows_its_job_and_its_buttons_work_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    served = Served(RestSettings("127.0.0.1", (0,), refresh_millis=500))
    client, job = served.start()
    wait_for(lambda: len(client.snapshot().past.points) > 2)
    window, place = opened(browser, served, job)
    with window as visit:
        page = visit.page
        page.goto(place)
        page.wait_for_selector("[data-chart=rate] canvas")
        assert page.locator("#graph .graph svg").count() == 1
        assert page.locator("#lineage .graph svg").count() == 1
        records = page.locator("#job-tiles .tile").first
        before = records.inner_text()
        wait_for(lambda: records.inner_text() != before)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.locator("#do-savepoint").focus()
        page.keyboard.press(" ")
        page.wait_for_selector("dialog[open]")
        assert page.evaluate("document.activeElement.name") == "directory"
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog[open]", state="detached")
        assert page.evaluate("document.activeElement.id") == "do-savepoint"
        asked = len(visit.asked)
        more(visit, asked)
        assert page.evaluate("document.activeElement.id") == "do-savepoint"
        page.keyboard.press("Enter")
        page.fill("dialog input[name=directory]", str(tmp_path))
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog pre")
        assert str(tmp_path) in page.inner_text("dialog pre")
        page.keyboard.press("Escape")
        page.wait_for_selector(f"#history-body td:has-text('{tmp_path}')")
        page.select_option("#theme", "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)"
        assert all(address.startswith(served.server.address) for address in visit.asked)
        client.cancel().result(timeout=PATIENCE)
        page.wait_for_selector(".pill-canceled")
        assert page.locator("#do-cancel").count() == 0
        assert visit.errors == []
        served.server.close()
        page.wait_for_selector("#stale:not([hidden])")
        page.goto("about:blank")  # which requests nothing any more
        visit.errors.clear()  # of requests that had no answer


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    folder = tmp_path_factory.mktemp("shop")
    served, orders = Served(RestSettings("127.0.0.1", (0,), refresh_millis=500)), Orders(folder, "nothing")
    settings = settings_of(folder)
    client = submit(folder, orders.log, "nothing", settings)
    served.serve(client, settings)
    wait_for(lambda: len(client.snapshot().past.points) > 5 and client.snapshot().past.points[-1].rejected)
    yield served, str(client.get_job_id())
    running.cancel_all()
    orders.close()
    served.server.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_pages_fit_and_can_be_read(browser: Browser, shop: tuple[Served, str], width: int, scheme: Any) -> None:
    served, job = shop
    window, place = opened(browser, served, job, width=width, color_scheme=scheme)
    with window as visit:
        page = visit.page
        pages = ("/dashboard", "/dashboard/topics", "/dashboard/jobs/none", f"{place}/actions/savepoint")
        for path in (place, *pages, f"{place}/checkpoints/{newest(served, job)}"):
            answer = page.goto(path)
            assert answer is not None
            assert answer.ok or path.endswith("none"), path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CONTRASTS) == [], path
            assert page.evaluate(NAMELESS) == [], path


def newest(served: Served, job: str) -> int:
    """The number of the newest checkpoint."""
    return int(served.rest.get("jobs", job, "checkpoints")["latest"]["completed"]["id"])


@pytest.mark.slow
def test_a_page_works_without_scripts(browser: Browser, shop: tuple[Served, str]) -> None:
    served, job = shop
    window, place = opened(browser, served, job, java_script_enabled=False)
    with window as visit:
        page = visit.page
        page.goto(place)
        page.click("#do-checkpoint")
        page.click("button[type=submit]")
        page.wait_for_selector("text=Checkpoint: done")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("record", "has a negative amount, at "),
        ("skew", "Skew: subtask "),
        ("idle", "Event time stands still: orders[orders-3] has brought nothing for "),
        ("slow", "“add tax” is at its limit"),
    ],
)
def test_what_is_wrong_with_a_job_stands_above_all_else(
    browser: Browser, tmp_path: Path, wrong: str, told: str
) -> None:
    served, orders = Served(RestSettings("127.0.0.1", (0,), refresh_millis=500)), Orders(tmp_path, wrong)
    settings = settings_of(tmp_path, **({"parallelism.default": "1"} if wrong == "slow" else {}))
    client = submit(tmp_path, orders.log, wrong, settings)
    served.serve(client, settings)
    wait_for(client.get_job_id)
    window, place = opened(browser, served, str(client.get_job_id()))
    with window as visit:
        visit.page.goto(place)
        began = time.monotonic()
        visit.page.wait_for_selector(f".finding:has-text('{told}')", timeout=60_000)
        assert time.monotonic() - began < 60
    running.cancel_all()
    orders.close()
    served.server.close()


def more(visit: Visit, asked: int) -> None:
    """Wait until the page has asked for more; the browser is heard only while it is asked something."""
    while len(visit.asked) < asked + 2:
        visit.page.wait_for_timeout(100)


@pytest.mark.slow
def test_a_window_that_is_left_alone_shows_that_it_waits(browser: Browser, shop: tuple[Served, str]) -> None:
    served, job = shop
    window, place = opened(browser, served, job)
    with window as visit:
        page: Any = visit.page
        page.goto(place)
        page.click("#pause")
        assert page.inner_text("#pause") == "Paused"
        asked = len(visit.asked)
        page.wait_for_timeout(1_500)
        assert len(visit.asked) == asked
        page.locator("#epochs-details summary").click()
        page.click("#pause")
        more(visit, asked)
        assert page.locator("#epochs-details").get_attribute("open") is not None
        page.locator("#subtasks-1 summary, #operators details summary").first.click()
        asked = len(visit.asked)
        more(visit, asked)
        page.wait_for_selector("#operators details[open]")
