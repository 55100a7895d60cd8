"""What Prometheus scrapes of a running job has Flink's names and labels."""

from __future__ import annotations

import logging
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.reporters.jobs import free_port, running
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK = "flink_taskmanager_job_task_"
OPERATOR = f"{TASK}operator_"


def settings(port: int, **more: str) -> dict[str, str]:
    given = {"factory.class": "prometheus", "port": str(port), **more}
    return {f"metrics.reporter.prom.{key}": value for key, value in given.items()}


def scraped(port: int) -> list[Sample]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def values(samples: list[Sample], name: str, **labels: str) -> list[float]:
    return [sample.value for sample in samples if sample.name == name and labels.items() <= dict(sample.labels).items()]


def test_a_running_job_is_scraped() -> None:
    port = free_port()
    with running(settings(port)) as client:
        job_id = str(client.get_job_id())
        samples = wait_for(lambda: (found := scraped(port)) and values(found, f"{OPERATOR}numRecordsIn") and found)
        assert values(samples, "flink_jobmanager_numRunningJobs") == [1]
        of_job = {"job_id": job_id, "job_name": "numbers_and_more"}
        (completed,) = values(samples, "flink_jobmanager_job_numberOfCompletedCheckpoints", **of_job)
        assert completed >= 1
        (uptime,) = values(samples, "flink_jobmanager_job_uptime", **of_job)
        assert uptime > 0
        assert values(samples, "flink_jobmanager_job_runningTime", **of_job)[0] > 0
        read = values(samples, f"{OPERATOR}numRecordsIn", operator_name="numbers", **of_job)
        assert sum(values(samples, f"{OPERATOR}numRecordsIn", operator_name="keyed")) == sum(read) > 0
        (keyed,) = (
            sample
            for sample in samples
            if sample.name == f"{OPERATOR}numRecordsIn"
            and sample.labels["operator_name"] == "keyed"
            and sample.labels["subtask_index"] == "1"
        )
        assert set(keyed.labels) == {
            "host", "tm_id", "job_id", "job_name", "task_id", "task_name", "task_attempt_id", "task_attempt_num",
            "subtask_index", "operator_id", "operator_name",
        }  # fmt: skip
        assert keyed.labels["task_name"] == "keyed"
        assert min(values(samples, f"{OPERATOR}numRecordsInPerSecond", operator_name="numbers")) >= 0
        sent = sum(values(samples, f"{TASK}numBytesOut", task_name="measure"))
        assert sent == sum(values(samples, f"{TASK}numBytesIn", task_name="keyed")) > 0
        for task in ("numbers", "measure", "keyed", "nowhere"):
            spent = [
                values(samples, f"{TASK}{what}TimeMsPerSecond", task_name=task, subtask_index="0")[0]
                for what in ("busy", "idle", "backPressured")
            ]
            assert min(spent) >= 0
            assert round(sum(spent)) == 1000
        watermarks = values(samples, f"{OPERATOR}currentInputWatermark", operator_name="keyed")
        assert len(watermarks) == 2
        (split,) = values(samples, f"{OPERATOR}split_watermark_currentWatermark", split="0")
        assert split >= max(watermarks)
        assert sum(values(samples, f"{OPERATOR}seen", operator_name="measure")) == sum(read)
        (odd,) = {sample.labels["parity"] for sample in samples if sample.name == f"{OPERATOR}numbers_parity_seen"}
        assert odd == "odd"
        assert set(values(samples, f"{OPERATOR}answer")) == {42}
        assert sum(values(samples, f"{OPERATOR}sizes_count")) == sum(read)
        assert min(values(samples, f"{OPERATOR}sizes", quantile="0")) == 0
        assert sum(values(samples, f"{OPERATOR}rate")) > 0
        assert values(samples, "process_cpu_seconds_total")
    with pytest.raises(OSError, match="refused"):
        scraped(port)


def test_two_jobs_of_one_process_take_two_ports() -> None:
    ports = f"{free_port()},{free_port()}"
    first, second = map(int, ports.split(","))
    given = {**settings(first), "metrics.reporter.prom.port": ports}
    with running({**given, "pipeline.name": "one"}), running({**given, "pipeline.name": "other"}):
        for port, name in ((first, "one"), (second, "other")):
            samples = wait_for(lambda port=port: scraped(port))
            assert values(samples, "flink_jobmanager_job_numRestarts", job_name=name) == [0]


def test_a_port_that_is_taken_is_told_once_and_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with running(settings(port)), running(settings(port)) as other, caplog.at_level(logging.INFO):
        before = other.snapshot().completed
        wait_for(lambda: other.snapshot().completed > before + 2)
        wait_for(lambda: "is taken" in caplog.text)
    (told,) = (record for record in caplog.records if "is taken" in record.message and record.levelname == "WARNING")
    assert f"port {port} is taken, by another job perhaps: give a range, " in told.getMessage()


def test_labels_are_chosen_and_metrics_filtered() -> None:
    port = free_port()
    more = {
        "scope.variables.excludes": "task_name;host",
        "scope.variables.additional": "region:eu",
        "filter.includes": "*.operator:numRecords*;jobmanager.job:uptime",
        "filter.excludes": "*:*:meter;*:numRecordsOut",
        "filterLabelValueCharacters": "false",
    }
    with running(settings(port, **more)):
        samples = wait_for(lambda: (found := scraped(port)) and values(found, f"{OPERATOR}numRecordsIn") and found)
    of_flink = [sample for sample in samples if sample.name.startswith("flink_")]
    assert {sample.name for sample in of_flink} == {"flink_jobmanager_job_uptime", f"{OPERATOR}numRecordsIn"}
    assert {sample.labels["region"] for sample in of_flink} == {"eu"}
    assert {sample.labels["job_name"] for sample in of_flink} == {"numbers and more"}
    assert not any({"task_name", "host"} & sample.labels.keys() for sample in of_flink)


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    port = free_port()
    with running(settings(port), runtime="spark"):
        samples = wait_for(lambda: (found := scraped(port)) and values(found, f"{OPERATOR}numRecordsIn") and found)
    assert sum(values(samples, f"{OPERATOR}numRecordsIn", operator_name="keyed")) > 0
    for task in ("numbers", "measure", "keyed"):  # of each stage
        assert max(values(samples, f"{TASK}busyTimeMsPerSecond", task_name=task)) > 0
