"""What a client refuses to be asked for: a job that is ended by mistake is hard to begin again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.client.job_client import JobClient
from headrace.common import JobStatus
from headrace.common.errors import ConfigurationError, InvalidTypeError, SavepointError
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records

NOWHERE: dict[str, str | None] = {"execution.checkpointing.savepoint-dir": None}
MISTAKES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda job: job.stop_with_savepoint("there"), InvalidTypeError, "advance_to_end_of_event_time takes a bool"),
    (lambda job: job.stop_with_savepoint(None), InvalidTypeError, "takes a bool, not None"),
    (lambda job: job.stop(drain="no"), InvalidTypeError, "stop: drain takes a bool, not 'no'"),
    (lambda job: job.rescale("3"), InvalidTypeError, "rescale: parallelism takes an int, not '3'"),
    (lambda job: job.trigger_savepoint(True), InvalidTypeError, "savepoint_directory takes a str, not True"),
    (lambda job: job.trigger_savepoint("there", None), InvalidTypeError, "format_type takes a str, not None"),
    (lambda job: job.trigger_savepoint("there", "avro"), ConfigurationError, "no format 'avro' of savepoints"),
    (lambda job: job.stop_with_savepoint(False, ""), ConfigurationError, "stop_with_savepoint: the place .* is empty"),
    (lambda job: job.stop_with_savepoint(True), ConfigurationError, "where is the savepoint to be made"),
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("a", {1: 1})
    return place


def test_mistakes_are_told_and_the_job_goes_on(place: Place) -> None:
    client = start(place, "job", 1, settings=NOWHERE)
    for ask, kind, message in MISTAKES:
        with pytest.raises(kind, match=message):
            ask(client)
    place.write("b", {2: 2})
    wait_for_records(client, 2)
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.stop().result(DEADLINE)


def test_a_native_savepoint_needs_a_checkpoint_directory(place: Place) -> None:
    without = {"execution.checkpointing.dir": None}
    client = start(place, "job", 1, settings=without)
    wait_for_records(client, 1)
    for asked in (client.trigger_savepoint(format_type="native"), client.stop_with_savepoint(False, None, "native")):
        with pytest.raises(SavepointError, match=r"they go when the job ends: set it, or take a canonical.*goes on"):
            asked.result(DEADLINE)
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    again = start(place, "again", 1, settings={"execution.state-recovery.path": savepoint})
    place.write("b", {1: 5})
    wait_for_records(again, 2)
    again.stop(drain=True).result(DEADLINE)
    assert place.totals("out-again") == {"k1": 6}


def test_a_path_of_pathlib_will_do(place: Place) -> None:
    client: JobClient = start(place, "job", 1, settings=NOWHERE)
    wait_for_records(client, 1)
    savepoint = client.stop_with_savepoint(False, place.root / "there").result(DEADLINE)
    assert Path(savepoint).parent == place.root / "there"
