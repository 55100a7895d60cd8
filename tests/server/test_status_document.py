"""The status of a job as a document: it comes back as it was, but for the program."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import HeadraceError, JobCancelledError
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.events import SavepointStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.plan.explain import plan_diagram
from headrace.reporters.sampler import JobSampler
from headrace.server.archives import snapshot_of_document, snapshot_to_document

PLACE = {"host": "here", "tm_id": "here-1"}


def told(job: JobSnapshot) -> JobSnapshot:
    return snapshot_of_document(json.loads(json.dumps(snapshot_to_document(job), allow_nan=False)))


def ended_job() -> JobSnapshot:
    """The last snapshot of a job that has failed."""
    configuration = Configuration.from_dict({"headrace.runtime": "local", "my.password": "secret-word"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    numbers = env.from_collection([*range(100)], Types.LONG()).assign_timestamps_and_watermarks(times)
    keyed = numbers.key_by(lambda number: number % 7, Types.LONG()).reduce(lambda one, other: one + other)
    keyed.uid("sum").map(lambda total: 1 // (total - 99)).print()
    client = env.execute_async("a job")
    client.get_job_execution_result().exception()
    return client.snapshot()


def test_nothing_is_lost_but_the_program() -> None:
    job = ended_job()
    job = dataclasses.replace(
        job, savepoints=(SavepointStatus(1, "/savepoints", 3, "/savepoints/1", begun=1, ended=2),)
    )
    back = told(job)
    for field in dataclasses.fields(JobSnapshot):
        if field.name not in {"plan", "start", "end", "latest", "workload"}:
            assert getattr(back, field.name) == getattr(job, field.name), field.name
    assert back.workload == job.workload
    assert (back.start is None, back.end is None) == (job.start is None, job.end is None)
    assert back.plan is not None
    assert job.plan is not None
    assert plan_diagram(back.plan) == plan_diagram(job.plan)
    assert back.end is not None
    assert job.end is not None
    assert (type(back.end.error).__name__, str(back.end.error)) == (type(job.end.error).__name__, str(job.end.error))
    assert "secret-word" not in json.dumps(snapshot_to_document(job))


@pytest.mark.parametrize("count", [0, 50])
def test_it_measures_what_the_job_measured(count: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    numbers = env.from_collection([*range(count)], Types.LONG()).assign_timestamps_and_watermarks(times)
    numbers.key_by(lambda number: number % 7, Types.LONG()).reduce(lambda one, other: one + other).print()
    client = env.execute_async("a job")
    client.get_job_execution_result().result()
    job = client.snapshot()

    def samples(snapshot: JobSnapshot) -> set[tuple[Any, ...]]:
        found = JobSampler(Configuration(), PLACE).samples(snapshot, 1_800_000_000_000)
        return {(sample.name, str(sample.scope.variables), str(sample.value)) for sample in found}

    assert samples(told(job)) == samples(job)


def test_errors_have_their_class_and_documents_of_later_versions_are_refused() -> None:
    job = ended_job()
    assert job.end is not None
    cancelled = dataclasses.replace(job, end=dataclasses.replace(job.end, error=JobCancelledError("given up")))
    assert isinstance(told(cancelled).end.error, JobCancelledError)  # type: ignore[union-attr]
    foreign = dataclasses.replace(job, end=dataclasses.replace(job.end, error=ZeroDivisionError("by zero")))
    assert type(told(foreign).end.error).__name__ == "ZeroDivisionError"  # type: ignore[union-attr]
    with pytest.raises(HeadraceError, match="format 2"):
        snapshot_of_document({**snapshot_to_document(job), "format": 2})
    with pytest.raises(HeadraceError, match="cannot be read"):
        snapshot_of_document({"format": 1, "name": "x"})
