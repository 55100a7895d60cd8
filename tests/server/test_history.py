"""Archives of jobs that have ended, and what shows them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import ConfigurationError
from headrace.server.client import RestClient, RestClientError
from headrace.server.history import ArchivedJobs, history_settings
from headrace.server.routes import ROUTES
from headrace.server.server import RestServer, ServedContent
from headrace.server.settings import RestSettings
from tests.server.serving import Served
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMES = ("now", "duration", "heartbeat", "status-duration", "stringifiedThreadInfo")
"""What depends on when it is asked for."""


class History:
    """A server of archives."""

    def __init__(self, folder: Path, **more: str) -> None:
        given = {"historyserver.archive.fs.dir": str(folder), "historyserver.web.port": "0"} | more
        configuration = Configuration.from_dict(given)
        self.jobs = ArchivedJobs(configuration)
        settings = RestSettings.of(history_settings(configuration))
        self.server = RestServer(settings, lambda address: ServedContent(self.jobs, is_history=True))
        self.jobs.look()
        self.server.start()
        self.rest = RestClient(self.server.address, seconds=60.0)


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    return tmp_path / "archives"


@pytest.fixture
def history(archives: Path) -> Iterator[History]:
    made = History(archives)
    yield made
    made.server.close()


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in TIMES}
    return [without_times(each) for each in found] if isinstance(found, list) else found


def test_archives_are_shown_as_jobs_that_run(served: Served, archives: Path, history: History, tmp_path: Path) -> None:
    settings = {"jobmanager.archive.fs.dir": str(archives), "my.password": "secret-word"}
    _, finished = served.start(count=2_000, rate=20_000, **settings)
    _, failed = served.start(count=2_000, fails_at=1_500, **settings)
    for job in (finished, failed):
        wait_for((archives / job).exists)
    assert "secret-word" not in (archives / finished).read_text()
    history.jobs.look()
    lines = {line["jid"]: line for line in history.rest.get("jobs", "overview")["jobs"]}
    assert {lines[finished]["state"], lines[failed]["state"]} == {"FINISHED", "FAILED"}
    for job in (finished, failed):
        vertex = history.rest.get("jobs", job)["vertices"][1]["id"]
        for route in ROUTES:
            if route.method == "GET" and route.path.startswith("/jobs/:jobid") and not _is_of_process(route.path):
                names = {":jobid": job, ":vertexid": vertex, ":subtaskindex": "0", ":attempt": "0"}
                path = [names.get(part, part) for part in route.path.strip("/").split("/")]
                assert without_times(history.rest.get(*path)) == without_times(served.rest.get(*path)), route.path
    assert (
        "one too many" in history.rest.get("jobs", failed, "exceptions")["exceptionHistory"]["entries"][0]["stacktrace"]
    )


def _is_of_process(path: str) -> bool:
    """Whether a path triggers something, or needs more than a job and a vertex."""
    return any(word in path for word in (":triggerid", ":checkpointid", "cancel", ":filename", "/environment"))


def test_a_job_that_has_ended_does_nothing_any_more(served: Served, archives: Path, history: History) -> None:
    _, job = served.start(count=100, **{"jobmanager.archive.fs.dir": str(archives)})
    wait_for((archives / job).exists)
    history.jobs.look()
    with pytest.raises(RestClientError, match="has ended"):
        history.rest.ask("PATCH", ("jobs", job))
    with pytest.raises(RestClientError, match="has ended"):
        history.rest.ask("POST", ("jobs", job, "savepoints"), body={})
    assert history.rest.get("config")["features"] == {
        "web-submit": False,
        "web-cancel": False,
        "web-rescale": False,
        "web-history": True,
    }
    assert history.rest.get("taskmanagers")["taskmanagers"] == []


def test_what_is_no_archive_is_left_out_and_old_ones_are_removed(served: Served, archives: Path) -> None:
    jobs = [served.start(count=100, **{"jobmanager.archive.fs.dir": str(archives)})[1] for _ in range(3)]
    for number, job in enumerate(jobs):
        wait_for((archives / job).exists)
        os.utime(archives / job, (number, number))
    (archives / ("f" * 32)).write_text('{"status": 3}')
    (archives / ("e" * 32)).write_text("[")
    (archives / "notes.txt").write_text("somebody's")
    document = json.loads((archives / jobs[0]).read_text())
    document["status"]["format"] = 99
    (archives / jobs[0]).write_text(json.dumps(document))
    found = ArchivedJobs(Configuration.from_dict({"jobmanager.archive.fs.dir": str(archives)}))
    found.look()
    assert {job.snapshot().job_id for job in found.all()} == set(jobs[1:])
    kept = ArchivedJobs(
        Configuration.from_dict(
            {"historyserver.archive.fs.dir": str(archives), "historyserver.archive.retained-jobs": "4"}
        )
    )
    kept.look()
    assert sorted(each.name for each in archives.iterdir()) == sorted(
        [jobs[0], jobs[2], "e" * 32, "f" * 32, "notes.txt"]
    )


def test_it_has_to_be_told_a_place() -> None:
    with pytest.raises(ConfigurationError, match=r"historyserver\.archive\.fs\.dir"):
        ArchivedJobs(Configuration())


@pytest.mark.integration
def test_the_command_says_where_the_dashboard_is(archives: Path) -> None:
    command = [sys.executable, "-m", "headrace", "history-server", "--dir", str(archives)]
    command += ["-D", "historyserver.web.port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = re.fullmatch(r"history of 0 jobs at (http://\S+)\n", process.stdout.readline())
        assert told is not None
        with urllib.request.urlopen(f"{told[1]}/dashboard", timeout=60) as page:
            assert "No job yet" in page.read().decode()
        process.terminate()
    assert process.returncode == 0
