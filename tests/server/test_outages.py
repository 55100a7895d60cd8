"""Servers that hang or end while their job runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from headrace.server.client import RestClientError
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from tests.server.serving import Served


def goes_on(client: JobClient) -> bool:
    """A job completes epochs, and none of them fails."""
    completed = client.snapshot().completed
    wait_for(lambda: client.snapshot().completed > completed + 3)
    return client.snapshot().failures == ()


def test_a_job_goes_on_while_its_server_hangs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client, job = served.start()
    jobs, hangs, ends = served.server._service.jobs, threading.Event(), threading.Event()
    all_jobs = jobs.all

    def hang() -> list[object]:
        hangs.set()
        assert ends.wait(PATIENCE)
        return list(all_jobs())

    with ThreadPoolExecutor(1) as clients:
        monkeypatch.setattr(jobs, "all", hang)
        asked = clients.submit(served.rest.get, "jobs")
        try:
            assert hangs.wait(PATIENCE)
            assert goes_on(client)
            assert not asked.done()
        finally:
            ends.set()
        assert asked.result(PATIENCE) == {"jobs": [{"id": job, "status": "RUNNING"}]}


def test_a_job_goes_on_when_its_server_has_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = served.start()

    async def fail(_: int) -> bool:
        raise RuntimeError("it is broken")

    monkeypatch.setattr(served.server._server, "on_tick", fail)
    wait_for(lambda: not served.server._thread.is_alive())
    assert "the REST API is served no more; the job goes on" in caplog.text
    with pytest.raises(RestClientError):
        served.rest.get("jobs")
    assert goes_on(client)
