"""Flink's own web UI, unmodified, in a real Chromium: what it shows of jobs of headrace."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn

from headrace.broker import maven_jars
from headrace.client import running
from headrace.common.errors import InfrastructureError
from headrace.common.java import cache_directory
from headrace.server.client import RestClient
from headrace.server.flink_web import FlinkWeb, flink_web_application
from headrace.server.settings import RestSettings
from tests.server.browsing import chromium, page_of
from tests.server.serving import Served
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.apart]

VERSION = "2.3.0"


@pytest.fixture(scope="module")
def web() -> FlinkWeb:
    cache = cache_directory(os.environ) / "flink-runtime-web"
    name = f"org.apache.flink:flink-runtime-web:{VERSION}"
    try:
        jars = maven_jars(cache, f"Flink's web UI {VERSION}", name)
    except InfrastructureError as error:
        pytest.skip(str(error))
    return FlinkWeb(next(jar for jar in jars if jar.name.startswith("flink-runtime-web")))


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served(RestSettings("127.0.0.1", (0,), refresh_millis=1_000))
    yield made
    running.cancel_all()
    made.server.close()


@pytest.fixture
def address(web: FlinkWeb, served: Served) -> Iterator[str]:
    app = flink_web_application(web, RestClient(served.server.address), RestSettings("localhost", (0,)))
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)
    bound.close()


def test_flinks_web_ui_shows_jobs_and_cancels_one(address: str, served: Served) -> None:
    client, job = served.start()
    failed, other = served.start(fails_at=2_000)
    failed.get_job_execution_result().exception(timeout=PATIENCE)
    wait_for(lambda: client.snapshot().completed > 3)
    vertex = next(each["id"] for each in served.rest.get("jobs", job)["vertices"] if each["name"] == "sum")
    with chromium() as browser, page_of(browser) as visit:
        page = visit.page

        def shows(place: str, *texts: str) -> None:
            page.goto(f"{address}/#/{place}")
            page.reload()  # the same page with another fragment is not loaded again
            for text in texts:
                page.wait_for_selector(f"text={text}")

        shows("overview", "served job", "RUNNING", "FAILED")
        shows(f"job/running/{job}/overview", "one more", "HASH", "/Busy \\(max\\): \\d+%/")
        shows(f"job/running/{job}/overview/{vertex}/watermarks", "SubTask", "/^[1-9]\\d+$/")
        shows(f"job/running/{job}/overview/{vertex}/backpressure", "/OK|LOW|HIGH/", "/\\d+%/")
        shows(f"job/running/{job}/overview/{vertex}/metrics", "Add Metric")
        page.click("input.ant-select-selection-search-input")
        page.click("nz-option-item >> text=/numRecordsIn$/")
        page.wait_for_selector("flink-job-chart canvas, flink-job-chart svg")
        shows(f"job/running/{job}/checkpoints", "Latest Completed Checkpoint", "/Completed: [1-9]/", "one more")
        shows(f"job/completed/{other}/exceptions", "/2000.is.one.too.many/")
        shows("job-manager/config", "parallelism.default")
        shows(f"job/running/{job}/overview", "Cancel Job")
        page.click("text=Cancel Job")
        page.click("text=Yes")
        for _ in range(200):  # the browser works while it is asked something
            page.wait_for_timeout(100)
            if client.snapshot().end is not None:
                break
        assert client.snapshot().status.name == "CANCELED"
        visit.errors.clear()  # it warns of its own styles
