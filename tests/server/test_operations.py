"""Savepoints, checkpoints, stop, cancel and rescale by the REST API, as Flink's clients ask for them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.expressions import col
from headrace.server.client import RestClientError
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from tests.server.serving import Served


def triggered(served: Served, job: str, what: str, outcome: str, body: dict[str, Any]) -> Any:
    trigger = served.rest.ask("POST", ("jobs", job, what), body=body)["request-id"]
    return served.rest.outcome("jobs", job, outcome, trigger, timeout=PATIENCE)


def test_a_savepoint_is_taken_while_the_job_goes_on(served: Served, tmp_path: Path) -> None:
    _, job = served.start(**{"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    wanted = {"target-directory": str(tmp_path / "savepoints"), "cancel-job": False, "formatType": "CANONICAL"}
    taken = triggered(served, job, "savepoints", "savepoints", wanted)
    assert (Path(taken["location"]) / "metadata.json").is_file() or any(Path(taken["location"]).iterdir())
    assert served.rest.get("jobs", job, "status") == {"status": "RUNNING"}
    latest = served.rest.get("jobs", job, "checkpoints")["latest"]["savepoint"]
    assert latest["external_path"] == taken["location"]
    assert latest["latest_ack_timestamp"] >= latest["trigger_timestamp"] > 0
    trigger = served.rest.ask("POST", ("savepoint-disposal",), body={"savepoint-path": taken["location"]})
    served.rest.outcome("savepoint-disposal", trigger["request-id"], timeout=PATIENCE)
    assert not Path(taken["location"]).exists()


def test_a_job_stops_with_a_savepoint_that_can_be_asked_for_afterwards(served: Served, tmp_path: Path) -> None:
    client, job = served.start()
    wanted = {"targetDirectory": str(tmp_path), "drain": False, "formatType": "CANONICAL"}
    taken = triggered(served, job, "stop", "savepoints", wanted)
    assert Path(taken["location"]).is_dir()
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert served.rest.get("jobs", job, "execution-result")["job-execution-result"]["application-status"] == "SUCCEEDED"


def test_a_savepoint_without_a_place_is_refused_at_once(served: Served) -> None:
    _, job = served.start()
    with pytest.raises(RestClientError, match="where is the savepoint to be made"):
        served.rest.ask("POST", ("jobs", job, "savepoints"), body={"cancel-job": False})


def test_why_there_is_no_savepoint_is_told_as_java_reads_it(served: Served, tmp_path: Path) -> None:
    _, job = served.start()
    (tmp_path / "file").write_text("no folder")
    body = {"target-directory": str(tmp_path / "file"), "cancel-job": False}
    trigger = served.rest.ask("POST", ("jobs", job, "savepoints"), body=body)["request-id"]
    with pytest.raises(RestClientError, match="no savepoint was taken"):
        served.rest.outcome("jobs", job, "savepoints", trigger, timeout=PATIENCE)
    cause = served.rest.get("jobs", job, "savepoints", trigger)["operation"]["failure-cause"]
    serialized = base64.b64decode(cause["serialized-throwable"])
    assert serialized.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert cause["stack-trace"].encode() in serialized


def test_a_checkpoint_is_an_epoch_that_need_not_wait_for_input(served: Served) -> None:
    client, job = served.start(count=None, rate=1)
    before = client.snapshot().completed
    taken = triggered(served, job, "checkpoints", "checkpoints", {"checkpointType": "FULL"})
    assert taken["checkpointId"] > 0
    assert client.snapshot().completed > before
    history = served.rest.get("jobs", job, "checkpoints")["history"]
    assert taken["checkpointId"] in [each["id"] for each in history]


def test_a_job_is_cancelled(served: Served) -> None:
    client, job = served.start()
    served.rest.ask("PATCH", ("jobs", job), {"mode": "cancel"})
    client.get_job_execution_result().exception(timeout=PATIENCE)
    assert served.rest.get("jobs", job, "status") == {"status": "CANCELED"}
    with pytest.raises(RestClientError, match="has ended: it is CANCELED"):
        served.rest.ask("PATCH", ("jobs", job), {"mode": "cancel"})


def test_a_job_is_rescaled_in_place(served: Served) -> None:
    _, job = served.start()
    trigger = served.rest.ask("PATCH", ("jobs", job, "rescaling"), {"parallelism": 1})["request-id"]
    served.rest.outcome("jobs", job, "rescaling", trigger, timeout=PATIENCE)
    assert {each["parallelism"] for each in served.rest.get("jobs", job)["vertices"]} == {1}
    needs = served.rest.get("jobs", job, "resource-requirements")
    wanted = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for vertex in needs}
    served.rest.ask("PUT", ("jobs", job, "resource-requirements"), body=wanted)
    trigger = served.rest.ask("POST", ("jobs", job, "checkpoints"), body={})["request-id"]
    served.rest.outcome("jobs", job, "checkpoints", trigger, timeout=PATIENCE)
    assert {each["parallelism"] for each in served.rest.get("jobs", job)["vertices"]} == {2}


def test_the_same_trigger_is_begun_once(served: Served, tmp_path: Path) -> None:
    client, job = served.start()
    body = {"target-directory": str(tmp_path), "cancel-job": False, "triggerId": "ab" * 16}
    for _ in range(3):
        assert served.rest.ask("POST", ("jobs", job, "savepoints"), body=body) == {"request-id": "ab" * 16}
    served.rest.outcome("jobs", job, "savepoints", "ab" * 16, timeout=PATIENCE)
    assert len(client.snapshot().savepoints) == 1


def test_programs_of_java_are_refused_with_what_to_do(served: Served) -> None:
    with pytest.raises(RestClientError, match="headrace run -d"):
        served.rest.ask("POST", ("jobs",), body={"jobGraph": "x" * 3_000_000})


def test_a_job_goes_on_without_its_server(served: Served) -> None:
    client, _ = served.start()
    served.server.close()
    before = client.snapshot().completed
    wait_for(lambda: client.snapshot().completed > before + 1)
    client.stop().result(timeout=PATIENCE)


def test_an_epoch_that_is_held_back_is_released(served: Served, tmp_path: Path) -> None:
    configuration = Configuration.from_dict(
        {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1, -1], Types.LONG()).expect("positive", col(0) > 0, "hold").uid("gate").print().uid("out")
    client = env.execute_async()
    served.server.add(client, configuration)
    wait_for(lambda: client.snapshot().held)
    job = str(client.get_job_id())
    held = served.rest.get("jobs", job, "held-epoch")
    assert held["epoch"] == 1
    assert held["violations"][0]["operator"] == "gate"
    assert "record: -1" in held["violations"][0]["text"]
    assert served.rest.ask("POST", ("jobs", job, "held-epoch", "release")) == {"epoch": 1}
    wait_for(lambda: client.snapshot().end)
    assert served.rest.get("jobs", job, "held-epoch") == {"epoch": None, "violations": []}
    with pytest.raises(RestClientError, match="no epoch of the job is held"):
        served.rest.ask("POST", ("jobs", job, "held-epoch", "release"))
