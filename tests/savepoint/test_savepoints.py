"""Savepoints of running jobs, and jobs that start from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.client.job_client import JobClient
from headrace.common import Configuration, JobStatus, WatermarkStrategy
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


FIRST = {key: key for key in range(20)}
SECOND = dict.fromkeys(range(10, 30), 100)
BOTH = {f"k{key}": FIRST.get(key, 0) + SECOND.get(key, 0) for key in range(30)}


def test_a_job_goes_on_while_others_start_from_its_savepoint_at_another_parallelism(place: Place) -> None:
    place.write("a", FIRST)
    client = start(place, "one", 1)
    wait_for_records(client, 20)
    savepoint = client.trigger_savepoint().result(DEADLINE)
    place.write("b", SECOND)
    wait_for_records(client, 40)
    client.stop_with_savepoint(False).result(DEADLINE)
    assert place.totals("out-one") == BOTH

    again = start(place, "four", 4, settings={"execution.state-recovery.path": savepoint})
    wait_for_records(again, 40)
    second = again.stop_with_savepoint(False).result(DEADLINE)
    assert again.get_job_status().result() is JobStatus.FINISHED
    assert place.totals("out-four") == {f"k{key}": BOTH[f"k{key}"] for key in SECOND}, "what came after the savepoint"

    start(
        place, "three", 3, ends=True, settings={"execution.state-recovery.path": second}
    ).get_job_execution_result().result(DEADLINE)
    ends = {f"k{key} ends with {BOTH[f'k{key}']} at {10_000 + key}" for key in range(30)}
    assert sorted(place.lines("out-three")) == sorted(ends), "timers of both jobs, and no input once more"


@pytest.mark.slow
def test_nothing_is_shown_behind_the_savepoint_that_a_busy_job_ends_with(tmp_path: Path) -> None:
    """Its epochs follow one another at once, so that it learns between two of them that it is to stop."""
    shown: list[int] = []

    def started(settings: dict[str, str]) -> JobClient:
        known = {
            "headrace.runtime": "local",
            "headrace.epoch.max-records": "1",
            "headrace.epoch.target-duration": "60s",
            "parallelism.default": "1",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known | settings))
        numbers = env.from_source(NumberSequenceSource(1, 400), WatermarkStrategy.no_watermarks(), "in").uid("in")
        numbers.sink_to(CollectSink(shown.extend)).uid("out")
        return env.execute_async("busy")

    settings: dict[str, str] = {}
    for life in range(3):
        client = started(settings)
        wait_for_records(client, 10 * (life + 1))
        savepoint = client.stop_with_savepoint(False, str(tmp_path)).result(DEADLINE)
        assert len(shown) < 400, "it was busy"
        settings = {"execution.state-recovery.path": savepoint}
    started(settings).get_job_execution_result().result(DEADLINE)
    assert sorted(shown) == [*range(1, 401)]


def test_other_programs_read_it_as_it_is(place: Place) -> None:
    place.write("a", FIRST)
    client = start(place, "job", 2)
    wait_for_records(client, 20)
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    totals = _query(f"select key, value from '{savepoint}/operators/totals/state-total/*.parquet' order by value")
    assert totals == [(f"k{key}", key) for key in range(20)]
    timers = _query(f"select time, key from '{savepoint}/operators/totals/timers-event/*.parquet' order by time")
    assert timers == [(10_000 + key, f"k{key}") for key in range(20)]


def _query(query: str) -> list[Any]:
    return duckdb.sql(query).fetchall()


@pytest.mark.spark
def test_on_spark(place: Place) -> None:
    spark = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}
    place.write("a", FIRST)
    client = start(place, "one", 1, settings=spark)
    wait_for_records(client, 20)
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    place.write("b", SECOND)
    again = start(place, "three", 3, settings=spark | {"execution.state-recovery.path": savepoint})
    wait_for_records(again, 40)
    again.stop_with_savepoint(False).result(DEADLINE)
    assert place.totals("out-three") == {f"k{key}": BOTH[f"k{key}"] for key in SECOND}
