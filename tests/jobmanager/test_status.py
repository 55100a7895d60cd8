"""The one status of a job: which statuses it goes through, what a snapshot says, and that it never changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.running import submission_defaults
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import InfrastructureError, JobCancelledError, JobSupersededError
from headrace.common.job_status import JobStatus
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.events import (
    EpochFailed,
    EpochStatistics,
    FailuresRecorded,
    JobCancelling,
    JobEnd,
    JobFailing,
    JobRestart,
    JobStart,
    SavepointStatus,
    SubmissionFailed,
)
from headrace.jobmanager.status import JobStatusStore
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.jobmanager.events import JobEvent
    from headrace.jobmanager.status import JobSnapshot

EPOCH = EpochStatistics(1, 10, 0.1, 0.2, 0.1, 0, 0, 0, {"numRecordsRead": 10})
FAULT = EpochFailed(2, OSError("gone"), 1.0)
START = JobStart("job", "id")


@pytest.mark.parametrize(
    ("events", "statuses"),
    [
        ([SubmissionFailed()], "CREATED FAILED"),
        ([START, EPOCH, JobEnd(1)], "CREATED RUNNING FINISHED"),
        ([START, FAULT, FAULT, JobRestart(1), EPOCH, JobEnd(1)], "CREATED RUNNING RESTARTING RUNNING FINISHED"),
        ([FAULT, START], "CREATED RESTARTING RUNNING"),
        ([START, JobEnd(1, finished=False)], "CREATED RUNNING SUSPENDED"),
        ([START, JobEnd(1, finished=False, savepoint="/savepoints/one")], "CREATED RUNNING FINISHED"),
        ([START, JobEnd(1, False, JobSupersededError("taken over"))], "CREATED RUNNING SUSPENDED"),
        ([START, JobFailing(), JobEnd(1, False, ValueError())], "CREATED RUNNING FAILING FAILED"),
        (
            [START, JobCancelling(), EPOCH, FAULT, JobRestart(1), JobEnd(1, False, JobCancelledError("enough")), START],
            "CREATED RUNNING CANCELLING CANCELED",
        ),
    ],
)
def test_a_job_goes_through_the_statuses_of_flink(events: list[JobEvent], statuses: str) -> None:
    store = JobStatusStore("job")
    for event in events:
        store.publish(event)
    assert [change.status.name for change in store.snapshot.history] == statuses.split()
    times = [change.time for change in store.snapshot.history]
    assert times == sorted(times)


def test_behind_the_end_nobody_is_told_any_more() -> None:
    store = JobStatusStore("job")
    told: list[JobEvent] = []
    store.subscribe(lambda event, _: told.append(event))
    store.publish(JobEnd(None, False, JobCancelledError("left behind")))
    ended = store.snapshot
    store.publish(EPOCH)
    assert store.snapshot is ended
    assert len(told) == 1


def test_a_snapshot_stays_as_it_is() -> None:
    store = JobStatusStore("job")
    store.publish(START)
    before = store.snapshot
    store.publish(EPOCH)
    assert (before.latest, before.completed, before.records) == (None, 0, 0)
    latest = store.snapshot.latest
    assert latest is not None
    assert (replace(latest, ended=0), store.snapshot.completed, store.snapshot.records) == (EPOCH, 1, 10)
    assert latest.ended >= store.snapshot.history[-1].time


def test_what_is_kept_of_epochs_and_savepoints_has_a_limit() -> None:
    store = JobStatusStore("job")
    for number in range(1000):
        store.publish(EPOCH)
        store.publish(SavepointStatus(number, "/savepoints", number))
        store.publish(SavepointStatus(number, "/savepoints", number, place=f"/savepoints/{number}"))
    job = store.snapshot
    assert (job.completed, job.records) == (1000, 10_000)
    assert len(job.epochs) == 40
    assert {epoch.event_time for epoch in job.epochs} == {None}
    assert [savepoint.place for savepoint in job.savepoints] == [f"/savepoints/{n}" for n in range(980, 1000)]


class Told:
    """Keeps every event with what was known then."""

    def __init__(self) -> None:
        self.statuses: list[JobStatus] = []
        self.events: list[JobEvent] = []
        self.job: JobSnapshot | None = None

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if self.statuses[-1:] != [job.status]:
            self.statuses.append(job.status)
        self.events.append(event)
        self.job = job


def started(function: Any, told: Told, count: int | None = 10, **settings: str) -> JobClient:
    options = {"headrace.runtime": "local", "parallelism.default": "1"} | settings
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = DataGeneratorSource(lambda number: number, count, RateLimiterStrategy.per_second(1000), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(function).uid("divide").filter(lambda number: False).uid("none").print().uid("out")
    with submission_defaults({}, told):
        return env.execute_async("job")


def test_a_job_that_fails_is_failing_before_it_has_failed() -> None:
    told = Told()
    client = started(lambda number: 1 // (number - 5), told)
    assert client.get_job_execution_result().exception(PATIENCE) is not None
    statuses = [JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]
    assert [status for status in told.statuses if status is not JobStatus.CREATED] == statuses
    assert told.job is not None
    assert client.get_exception_history().result() == list(told.job.failures)
    assert [failure.error for failure in told.job.failures] == ["UserFunctionError"]
    assert any(isinstance(event, FailuresRecorded) and event.failures for event in told.events)


def test_a_failure_that_passes_is_told_with_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.runtime.local import LocalRuntime

    run, faults = LocalRuntime.run_epoch, iter([InfrastructureError("a worker died")])

    def flaky(runtime: LocalRuntime, context: Any) -> Any:
        for fault in faults:
            raise fault
        return run(runtime, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", flaky)
    told = Told()
    started(lambda number: number, told).get_job_execution_result().result(PATIENCE)
    names = [status.name for status in told.statuses if status is not JobStatus.CREATED]
    assert names == ["RUNNING", "RESTARTING", "RUNNING", "FINISHED"]


def test_savepoints_are_part_of_the_status(tmp_path: Path) -> None:
    told = Told()
    client = started(lambda number: number, told, None, **{"execution.checkpointing.dir": str(tmp_path / "job")})
    place = client.trigger_savepoint(str(tmp_path / "savepoints")).result(PATIENCE)
    second = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(PATIENCE)
    assert told.job is not None
    assert [savepoint.place for savepoint in told.job.savepoints] == [place, second]
    assert told.job.end is not None
    assert told.job.end.savepoint == second
    assert client.get_job_status().result() is JobStatus.FINISHED
