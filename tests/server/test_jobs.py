"""Lists of jobs and all about one of them: Flink's paths and fields."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from headrace.common import Configuration
from headrace.server.client import RestClient, RestClientError
from headrace.server.server import RestServer
from headrace.server.settings import RestSettings
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.server.serving import Served


def test_a_job_is_listed_with_what_flink_lists(served: Served) -> None:
    _, job = served.start()
    (line,) = served.rest.get("jobs", "overview")["jobs"]
    assert (line["jid"], line["name"], line["state"]) == (job, "served job", "RUNNING")
    assert line["end-time"] == -1
    assert line["duration"] >= 0
    assert line["tasks"]["total"] == line["tasks"]["running"] == 12
    assert served.rest.get("jobs") == {"jobs": [{"id": job, "status": "RUNNING"}]}
    assert served.rest.get("jobs", job, "status") == {"status": "RUNNING"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no nice value of their own")
@pytest.mark.usefixtures("served")
def test_the_server_takes_the_time_that_tasks_leave() -> None:
    threads = {each.name: each.native_id for each in threading.enumerate() if each.native_id is not None}
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert os.getpriority(os.PRIO_PROCESS, threads["headrace-rest"]) == min(before + 10, 19)
    assert os.sched_getscheduler(threads["headrace-rest"]) == os.SCHED_BATCH


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no scheduling policy of their own")
def test_a_sandbox_that_refuses_scheduling_policies_has_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []

    def refuse(*arguments: object) -> None:
        refused.append(arguments)
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    server = RestServer(RestSettings.of(Configuration.from_dict({"rest.port": "0"})))
    server.start()
    try:
        assert RestClient(server.address).get("jobs") == {"jobs": []}
    finally:
        server.close()
    assert len(refused) == 1


def test_the_vertices_of_a_job_are_its_operators(served: Served) -> None:
    _, job = served.start()
    details = served.rest.get("jobs", job)
    names = [vertex["name"] for vertex in details["vertices"]]
    assert names[0] == "numbers"
    assert {"one more", "sum", "none"} <= set(names)
    nodes = {node["id"]: node for node in details["plan"]["nodes"]}
    assert list(nodes) == [vertex["id"] for vertex in details["vertices"]]
    (sums,) = (vertex["id"] for vertex in details["vertices"] if vertex["name"] == "sum")
    (edge,) = nodes[sums]["inputs"]
    assert edge["ship_strategy"] == "HASH"
    assert edge["id"] in nodes
    assert served.rest.get("jobs", job, "plan")["plan"] == details["plan"]


def test_records_of_vertices_are_counted(served: Served) -> None:
    client, job = served.start(count=1_000, rate=1_000_000)
    client.get_job_execution_result().result(timeout=PATIENCE)
    details = served.rest.get("jobs", job)
    assert details["state"] == "FINISHED"
    assert details["end-time"] > details["start-time"]
    by_name = {vertex["name"]: vertex for vertex in details["vertices"]}
    assert by_name["sum"]["metrics"]["read-records"] == 1_000
    assert {vertex["status"] for vertex in details["vertices"]} == {"FINISHED"}


def test_the_overview_counts_jobs(served: Served) -> None:
    client, _ = served.start()
    assert served.rest.get("overview")["jobs-running"] == 1
    client.cancel().result(timeout=PATIENCE)
    overview = served.rest.get("overview")
    assert (overview["jobs-running"], overview["jobs-cancelled"]) == (0, 1)


def test_an_unknown_job_is_told_as_flink_tells_it(served: Served) -> None:
    with pytest.raises(RestClientError, match=f"Job {'0' * 32} not found"):
        served.rest.get("jobs", "0" * 32)
