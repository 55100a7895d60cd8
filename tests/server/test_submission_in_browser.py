"""A program is submitted by Flink's own web UI, unmodified, in a real Chromium."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn

from headrace.broker import maven_jars
from headrace.common.errors import InfrastructureError
from headrace.common.java import cache_directory
from headrace.server.flink_web import FlinkWeb, flink_web_application
from headrace.server.settings import RestSettings
from tests.server.browsing import chromium, page_of
from tests.server.clusters import PROGRAM, Cluster, processes_of
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.apart]

VERSION = "2.3.0"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", **{"web.refresh-interval": "1 s"})
    wait_for(lambda: made.service.dispatcher.leads)
    yield made
    made.service.stop()
    for process in processes_of(made.storage):
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def address(cluster: Cluster) -> Iterator[str]:
    name = f"org.apache.flink:flink-runtime-web:{VERSION}"
    try:
        jars = maven_jars(cache_directory(os.environ) / "flink-runtime-web", f"Flink's web UI {VERSION}", name)
    except InfrastructureError as error:
        pytest.skip(str(error))
    web = FlinkWeb(next(jar for jar in jars if jar.name.startswith("flink-runtime-web")))
    app = flink_web_application(web, cluster.rest, RestSettings("localhost", (0,)))
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)
    bound.close()


def test_a_script_is_uploaded_and_run(address: str, cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    with chromium() as browser, page_of(browser) as visit:
        page = visit.page
        page.set_default_timeout(60_000)
        page.goto(f"{address}/#/submit")
        page.wait_for_selector("text=Uploaded Jars")
        page.set_input_files("input[type=file]", str(program))
        page.click("td:has-text('job.py')")
        page.fill("input[formcontrolname=parallelism]", "2")
        page.fill("input[formcontrolname=programArgs]", "100000")
        page.click("button:has-text('Submit')")
        page.wait_for_url("**/job/running/*/overview")
        job = page.url.split("/")[-2]
        wait_for(lambda: cluster.epochs(job) > 0)
        page.wait_for_selector("text=numbers job")
        page.wait_for_selector("text=HASH")
    assert {each["parallelism"] for each in cluster.rest.get("jobs", job)["vertices"]} == {2}
    assert len(cluster.rest.get("jars")["files"]) == 1
    cluster.rest.ask("PATCH", ("jobs", job))
    cluster.wait_for(job, "CANCELED")
