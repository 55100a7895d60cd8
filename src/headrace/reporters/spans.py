"""Spans of a job: its start, its epochs in their parts, checkpoints, restarts, savepoints, and the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headrace.jobmanager.events import (
    EpochFailed,
    EpochStatistics,
    JobEnd,
    JobEvent,
    JobRestart,
    JobStart,
    SavepointStatus,
)
from headrace.jobmanager.status import JobSnapshot

Attributes: TypeAlias = Mapping[str, str | int | float | bool]

_SCOPE: Final = "headrace.jobmanager"
_MILLI: Final = 1_000_000
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took a time.

    Attributes:
        name: what.
        start: nanoseconds since 1970.
        end: likewise.
        attributes: what else is known of it.
        children: its parts.
        scope: what reports it.
        error: what it failed with; empty for nothing.
    """

    name: str
    start: int
    end: int
    attributes: Attributes = field(default_factory=dict)
    children: tuple[Span, ...] = ()
    scope: str = _SCOPE
    error: str = ""


class SpanMaker:
    """Makes the spans of one run of a job of its events."""

    def __init__(self) -> None:
        self._failed: tuple[int, EpochFailed] | None = None
        self._savepoints: dict[int, int] = {}

    def spans(self, event: JobEvent, job: JobSnapshot, now: int) -> Iterator[Span]:
        """The spans that end with an event.

        Args:
            event: what has happened.
            job: the job after that.
            now: when, in nanoseconds since 1970.
        """
        match event:
            case JobStart():
                yield _initialization(event, job, now)
            case EpochStatistics():
                yield _epoch(event, _of_job(job), now)
            case EpochFailed():
                self._failed = now, event
            case JobRestart() if self._failed is not None:
                (since, failure), self._failed = self._failed, None
                yield _restart(failure, job, since, now)
            case SavepointStatus():
                yield from self._savepoint(event, job, now)
            case JobEnd() if job.start is not None:
                yield _run(event, job, now)

    def _savepoint(self, event: SavepointStatus, job: JobSnapshot, now: int) -> Iterator[Span]:
        if not (event.place or event.error):
            self._savepoints[event.number] = now
            return
        attributes = {**_of_job(job), "checkpointId": event.epoch, "location": event.place or event.directory}
        yield Span("Savepoint", self._savepoints.pop(event.number, now), now, attributes, error=event.error)


def _of_job(job: JobSnapshot) -> dict[str, str | int | float | bool]:
    assert job.start is not None
    return {"jobId": job.start.job_id, "jobName": job.name}


def _initialization(event: JobStart, job: JobSnapshot, now: int) -> Span:
    attributes = {**_of_job(job), "initializationStatus": "COMPLETED", "generation": event.generation}
    if event.restored_epoch is not None:
        attributes["checkpointId"] = event.restored_epoch
    if event.savepoint:
        attributes["savepoint"] = event.savepoint
    return Span("JobInitialization", job.history[0].time * _MILLI, now, attributes)


def _epoch(event: EpochStatistics, of_job: Attributes, now: int) -> Span:
    """An epoch; its parts follow one another."""
    checkpoint = {
        **of_job,
        "checkpointId": event.epoch,
        "checkpointStatus": "COMPLETED",
        "checkpointType": "Checkpoint",
        "fullSize": event.state_bytes,
        "isUnaligned": False,
    }
    parts: tuple[tuple[str, float, Attributes], ...] = (
        ("Planning", event.planning, {}),
        ("Running", event.running, {}),
        ("Checkpoint", event.checkpointing, checkpoint),
        ("WaitingForSinks", event.waiting, {}),
    )
    start = moment = now - round(event.seconds * _SECOND)
    children = []
    for name, seconds, attributes in parts:
        end = min(now, moment + round(seconds * _SECOND))
        if seconds:
            children.append(Span(name, moment, end, attributes))
        moment = end
    attributes = {
        **of_job,
        "epoch": event.epoch,
        "records": event.records,
        "watermark": event.watermark,
        "stateBytes": event.state_bytes,
        "pendingCommits": event.pending_commits,
    }
    return Span("Epoch", start, now, attributes, tuple(children))


def _restart(failure: EpochFailed, job: JobSnapshot, since: int, now: int) -> Span:
    attributes = {**_of_job(job), "epoch": failure.epoch, "delay": failure.retry_in, "restarts": job.restarts}
    return Span("Restart", since, now, attributes, error=_error_text(failure.error))


def _run(event: JobEnd, job: JobSnapshot, now: int) -> Span:
    attributes = {
        **_of_job(job),
        "status": event.status.name,
        "epochs": job.completed,
        "records": job.records,
        "restarts": job.restarts,
    }
    error = "" if event.error is None else _error_text(event.error)
    return Span("Job", job.history[0].time * _MILLI, now, attributes, error=error)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
