"""What samples say of a job in the course of its life."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.common import Configuration
from headrace.common.errors import InfrastructureError
from headrace.jobmanager.events import (
    EpochFailed,
    EpochStatistics,
    JobEnd,
    JobEvent,
    JobRestart,
    JobStart,
    SavepointStatus,
)
from headrace.jobmanager.status import JobSnapshot, JobStatusStore
from headrace.metrics.samples import MetricValue
from headrace.reporters.sampler import JobSampler
from headrace.reporters.spans import Span, SpanMaker
from tests.jobmanager.test_workload import plan
from tests.reporters.jobs import by_name

PLAN = plan()
FAULT = EpochFailed(2, InfrastructureError("the machine was away"), 1.0)
EPOCH = EpochStatistics(2, 10, 0.1, 0.2, 0.05, 0, 0, 2048, operator_counters={"source": {"numRecordsIn": (10,)}})


def start(restored: int | None = None) -> JobStart:
    return JobStart("orders", "0" * 32, restored, plan=PLAN)


def after(events: Sequence[JobEvent], seconds: int = 10) -> JobSnapshot:
    """A job of which each event comes so many seconds behind the one before; it was created at 0."""
    job = JobSnapshot("orders", "run", JobStatusStore("orders").snapshot.history)
    created = job.history[0].time
    for number, event in enumerate(events, start=1):
        job = job.after(event, created + number * seconds * 1000)
    return job


def told(events: Sequence[JobEvent], seconds_later: int = 5, **settings: str) -> dict[str, MetricValue]:
    """The metrics of the job, so many seconds after the last event."""
    given = Configuration.from_dict({key.replace("_", "."): value for key, value in settings.items()})
    job = after(events)
    sampler = JobSampler(given, {"host": "h", "tm_id": "t"})
    samples = sampler.samples(job, job.history[0].time + len(events) * 10_000 + seconds_later * 1000)
    return {name: value for (operator, _, name), value in by_name(samples).items() if not operator}


def test_nothing_before_the_job_has_begun() -> None:
    assert told([]) == {}


def test_a_job_that_runs_and_has_run_before() -> None:
    metrics = told([start(restored=1), EPOCH])
    assert (metrics["uptime"], metrics["downtime"], metrics["runningTime"]) == (15_000, 0, 15_000)
    assert (metrics["numberOfCompletedCheckpoints"], metrics["lastCompletedCheckpointId"]) == (1, 2)
    assert (metrics["lastCheckpointDuration"], metrics["lastCheckpointFullSize"]) == (50, 2048)
    assert (metrics["lastEpochDuration"], metrics["lastEpochRecords"]) == (350, 10)
    restored = metrics["lastCheckpointRestoreTimestamp"]
    assert isinstance(restored, int)
    assert restored > 1_600_000_000_000


def test_a_job_that_waits_for_its_restart() -> None:
    metrics = told([start(), EPOCH, FAULT])
    assert (metrics["uptime"], metrics["downtime"], metrics["restartingTime"]) == (0, 5_000, 5_000)
    assert (metrics["numberOfFailedCheckpoints"], metrics["totalNumberOfCheckpoints"], metrics["numRestarts"]) == (
        1,
        2,
        0,
    )
    assert metrics["numRunningJobs"] == 0


def test_restarts_and_changes_of_parallelism_are_told_apart() -> None:
    metrics = told([start(), EPOCH, FAULT, JobRestart(2, PLAN), JobRestart(2, plan())])
    assert (metrics["numRestarts"], metrics["numRescales"], metrics["lastCheckpointRestoreTimestamp"] != -1) == (
        1,
        1,
        True,
    )


def test_a_job_that_has_ended() -> None:
    metrics = told([start(), EPOCH, JobEnd(2)])
    assert (metrics["uptime"], metrics["downtime"], metrics["runningTime"]) == (-1, -1, 0)


def test_statuses_are_told_as_the_configuration_says() -> None:
    every = {"metrics_job_status_enable": "STATE;TOTAL_TIME"}
    metrics = told([start(), EPOCH, FAULT, JobRestart(2, PLAN)], **every)
    assert (metrics["runningState"], metrics["restartingState"]) == (1, 0)
    assert (metrics["createdTimeTotal"], metrics["runningTimeTotal"], metrics["restartingTimeTotal"]) == (
        10_000,
        25_000,
        10_000,
    )
    assert "runningTime" not in metrics


def test_the_attempt_is_a_label() -> None:
    def attempt(events: Sequence[JobEvent]) -> set[str]:
        samples = JobSampler(Configuration(), {"host": "h", "tm_id": "t"}).samples(after(events), 0)
        return {sample.scope.variables["task_attempt_num"] for sample in samples if "task_id" in sample.scope.variables}

    assert attempt([start(), EPOCH]) == {"0"}
    assert attempt([start(), EPOCH, FAULT, JobRestart(2, PLAN)]) == {"1"}


def spans(events: Sequence[JobEvent]) -> list[Span]:
    """The spans of events, of which each comes a second after the one before."""
    maker, found = SpanMaker(), list[Span]()
    for number in range(len(events)):
        found += maker.spans(events[number], after(events[: number + 1]), (number + 1) * 1_000_000_000)
    return found


def test_a_savepoint_and_one_that_fails() -> None:
    begun = SavepointStatus(1, "/there", 2)
    done, failed = SavepointStatus(1, "/there", 2, place="/there/sp-1"), SavepointStatus(2, "/there", 2, error="full")
    _, first, second = spans([start(), begun, done, failed])
    assert (first.name, first.end - first.start, first.attributes["location"]) == (
        "Savepoint",
        1_000_000_000,
        "/there/sp-1",
    )
    assert (second.name, second.error) == ("Savepoint", "full")


def test_a_change_of_parallelism_is_no_restart_after_a_failure() -> None:
    names = [span.name for span in spans([start(), EPOCH, JobRestart(2, PLAN), FAULT, JobRestart(2, PLAN), JobEnd(2)])]
    assert names == ["JobInitialization", "Epoch", "Restart", "Job"]
