"""What Flink's dashboard asks for: checkpoints, metrics, subtasks, counters, exceptions, configuration."""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.logs import TextFormatter
from headrace.datastream import StreamExecutionEnvironment
from headrace.server import jobs
from headrace.server.client import RestClientError
from headrace.server.routes import ROUTES
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from tests.server.serving import Served

SECRET = "never-to-be-shown"

SELDOM = {"headrace.epoch.min-interval": "300 ms"}
"""So seldom that no checkpoint leaves the history, which keeps forty, before the test has asked for it."""


def places(served: Served, job: str) -> dict[str, str]:
    """What stands for the names in paths."""
    vertex = next(each["id"] for each in served.rest.get("jobs", job)["vertices"] if each["name"] == "sum")
    return {
        ":jobid": job,
        ":applicationid": job,
        ":vertexid": vertex,
        ":subtaskindex": "0",
        ":checkpointid": str(served.rest.get("jobs", job, "checkpoints")["latest"]["completed"]["id"]),
        ":taskmanagerid": served.rest.get("taskmanagers")["taskmanagers"][0]["id"],
        ":triggerid": "0" * 32,
    }


def test_every_path_that_tells_something_answers_with_json_and_without_secrets(served: Served) -> None:
    secrets = {"s3.secret-key": SECRET, "my.database.password": SECRET, "my.url": f"jdbc://me:{SECRET}@host/db"}
    _, job = served.start(**secrets, **SELDOM)
    known, refused = places(served, job), dict[str, str]()
    for route in ROUTES:
        if route.method == "GET" and "cancel" not in route.path:
            try:
                found = served.rest.get(*(known.get(part, part) for part in route.path.strip("/").split("/")))
            except RestClientError as error:
                refused[route.path] = str(error)
            else:
                assert SECRET not in json.dumps(found), route.path
    assert {path.rsplit("/", maxsplit=1)[-1] for path in refused} == {
        ":triggerid",
        ":filename",
        "log",
        "stdout",
        "plan",
    }


SAID = (
    f"unfit for jdbc:postgresql://me:{SECRET}@host/db, for jdbc:sqlserver://host;user=me;password={SECRET}; or "
    f"{{'sasl.jaas.config': 'PlainLoginModule required password=\"{SECRET}\";'}}"
)


def test_secrets_in_what_functions_raise_are_shown_nowhere(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(TextFormatter())
    client, job = served.start(fails_at=500, saying=SAID)
    error = client.get_job_execution_result().exception(timeout=PATIENCE)
    assert SECRET not in f"{error} {error!r}"
    assert "unfit for jdbc:postgresql://******@host/db" in str(error)
    assert SECRET not in caplog.text
    for path in ("exceptions", "execution-result", "archive"):
        told = json.dumps(served.rest.get("jobs", job, path))
        assert SECRET not in told, path
        assert "unfit for" in told, path
    cause = served.rest.get("jobs", job, "execution-result")["job-execution-result"]["failure-cause"]
    assert SECRET.encode() not in base64.b64decode(cause["serialized-throwable"])
    with urllib.request.urlopen(f"{served.server.address}/dashboard/jobs/{job}") as answer:
        page = answer.read().decode()
    assert SECRET not in page
    assert "unfit for" in page
    for failure in client.get_exception_history().result():
        assert SECRET not in failure.message


def test_checkpoints_are_epochs(served: Served) -> None:
    client, job = served.start(**SELDOM)
    wait_for(lambda: client.snapshot().completed > 2)
    told = served.rest.get("jobs", job, "checkpoints")
    assert told["counts"]["completed"] >= 3
    numbers = [each["id"] for each in told["history"]]
    assert numbers == sorted(numbers, reverse=True)
    latest = told["latest"]["completed"]
    assert latest["state_size"] > 0
    details = served.rest.get("jobs", job, "checkpoints", "details", str(numbers[-1]))
    assert set(details["tasks"]) == {vertex["id"] for vertex in served.rest.get("jobs", job)["vertices"]}
    with pytest.raises(RestClientError, match="Could not find checkpointing statistics for checkpoint 99"):
        served.rest.get("jobs", job, "checkpoints", "details", "99")


def test_the_newest_checkpoint_says_how_large_the_state_of_each_subtask_is(served: Served) -> None:
    client, job = served.start()
    wait_for(lambda: client.snapshot().completed > 2)
    client.cancel().result(timeout=PATIENCE)
    newest = client.snapshot().epochs[-1]
    place = ("jobs", job, "checkpoints", "details", str(newest.epoch))
    sizes = {vertex: task["state_size"] for vertex, task in served.rest.get(*place)["tasks"].items()}
    assert sum(sizes.values()) == newest.state_bytes > 0
    vertex = places(served, job)[":vertexid"]
    subtasks = served.rest.get(*place, "subtasks", vertex)["subtasks"]
    assert sum(each["state_size"] for each in subtasks) == sizes[vertex] == newest.state_bytes


def test_older_checkpoints_say_how_large_the_state_of_each_subtask_was(served: Served) -> None:
    client, job = served.start()
    wait_for(lambda: client.snapshot().completed > 3)
    client.cancel().result(timeout=PATIENCE)
    vertex = places(served, job)[":vertexid"]
    for epoch in client.snapshot().epochs:
        place = ("jobs", job, "checkpoints", "details", str(epoch.epoch))
        tasks = served.rest.get(*place)["tasks"]
        assert sum(task["state_size"] for task in tasks.values()) == epoch.state_bytes
        subtasks = served.rest.get(*place, "subtasks", vertex)["subtasks"]
        assert sum(each["state_size"] for each in subtasks) == tasks[vertex]["state_size"]
    assert client.snapshot().epochs[0].state_bytes > 0


def test_a_checkpoint_before_a_rescale_has_the_subtasks_of_then(served: Served) -> None:
    client, job = served.start(**SELDOM)
    wait_for(lambda: client.snapshot().completed > 1)
    client.rescale(1).result(timeout=PATIENCE)
    after = client.snapshot().epochs[-1].epoch
    wait_for(lambda: client.snapshot().epochs[-1].epoch > after)
    client.cancel().result(timeout=PATIENCE)
    vertex, found = places(served, job)[":vertexid"], set()
    for epoch in client.snapshot().epochs:
        place = ("jobs", job, "checkpoints", "details", str(epoch.epoch), "subtasks", vertex)
        told = served.rest.get(*place)
        assert told["state_size"] == epoch.state_bytes
        found.add(len(told["subtasks"]))
    assert found == {1, 2}


def test_the_line_that_an_epoch_is_stuck_in_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_LONG_SECONDS", 0.0)
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1], Types.LONG()).map(stuck, Types.LONG()).name("stuck").print()
    client = env.execute_async("stuck job")
    served.serve(client, {})
    try:
        (job,) = wait_for(lambda: served.rest.get("jobs")["jobs"])
        expected = f"test_views.py:{LINE} in stuck"
        wait_for(lambda: expected in _lines(served.rest.get("jobs", job["id"], "archive")["at_work"]))
    finally:
        FREE.set()
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert served.rest.get("jobs", job["id"], "archive")["at_work"] == []


def _lines(told: list[str]) -> list[str]:
    """Without folders."""
    return [line.rpartition("/")[2] for line in told]


FREE = threading.Event()


def stuck(number: int) -> int:
    FREE.wait()
    return number


LINE = stuck.__code__.co_firstlineno + 1


def test_lineage_names_what_is_read_and_written(served: Served) -> None:
    _, job = served.start()
    told = served.rest.get("jobs", job, "lineage")
    assert [each["name"] for each in told["sources"]] == ["numbers"]
    assert [each["inputs"] for each in told["sinks"]] == [["numbers"]]
    assert served.rest.get("jobs", job, "topics") == {"places": []}


def test_metrics_are_named_or_told(served: Served) -> None:
    _, job = served.start()
    vertex = places(served, job)[":vertexid"]
    of_vertex: Any = ("jobs", job, "vertices", vertex)
    names = [each["id"] for each in served.rest.get(*of_vertex, "metrics")]
    assert {"0.numRecordsIn", "1.numRecordsIn", "0.sum.currentInputWatermark"} <= set(names)
    (told,) = served.rest.get(*of_vertex, "metrics", get="0.numRecordsIn,7.nothing")
    assert int(told["value"]) > 0
    (sums,) = served.rest.get(*of_vertex, "subtasks", "metrics", get="numRecordsIn", agg="sum,max")
    assert set(sums) == {"id", "sum", "max"}
    assert sums["sum"] >= sums["max"] >= int(told["value"])
    assert [each["id"] for each in served.rest.get(*of_vertex, "watermarks")] == [
        "0.currentInputWatermark",
        "1.currentInputWatermark",
    ]
    assert served.rest.get("jobs", job, "metrics", get="numRestarts") == [{"id": "numRestarts", "value": "0"}]
    with pytest.raises(RestClientError, match="agg: some of min"):
        served.rest.get("jobs", "metrics", get="numRestarts", agg="most")
    with pytest.raises(RestClientError, match="Invalid subtask index"):
        served.rest.get(*of_vertex, "subtasks", "2")


def test_failures_are_told_with_the_subtask_and_the_users_line(served: Served) -> None:
    client, job = served.start(fails_at=1_000)
    client.get_job_execution_result().exception(timeout=PATIENCE)
    (entry,) = served.rest.get("jobs", job, "exceptions", maxExceptions=5)["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "UserFunctionError"
    assert "1000 is one too many" in entry["stacktrace"]
    assert entry["taskName"].startswith("one more (")
    assert served.rest.get("jobs", job)["state"] == "FAILED"
    assert served.rest.get("jobs", job, "execution-result")["job-execution-result"]["failure-cause"]
    with pytest.raises(RestClientError, match="no job runs: FAILED"):
        served.rest.get("readyz")
