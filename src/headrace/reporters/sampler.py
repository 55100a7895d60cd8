"""All that headrace itself measures, under Flink's names: of a job as a whole, of operators, and of splits.

Samples of a job's status are made of it: every metric with its scope.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.job_status import JobStatus
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.metrics import FunctionMetrics, MetricKey
from headrace.jobmanager.status import JobSnapshot
from headrace.jobmanager.workload import COUNTERS
from headrace.metrics import registry
from headrace.metrics.registry import EVENTS, SPLIT_WATERMARK, MetricGroupName, Summary
from headrace.metrics.samples import MeterReading, MetricKind, MetricSample, MetricValue
from headrace.metrics.scopes import MetricScope, ScopeFormats, ScopeKind
from headrace.plan.job_plan import JobPlan, operator_id

_Reading: TypeAlias = Callable[[JobSnapshot, int], MetricValue]

_NOT_YET: Final = -1
"""The number that Flink reports where there is no checkpoint, or no running job."""


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A metric of a job as a whole.

    Attributes:
        name: its name.
        description: what it says, for people.
        read: gives it as of a snapshot and a moment, in milliseconds of the system's clock.
        kind: its kind.
    """

    name: str
    description: str
    read: _Reading
    kind: MetricKind = MetricKind.GAUGE


def _uptime(job: JobSnapshot, now: int) -> int:
    if job.status is JobStatus.RUNNING:
        return max(0, now - job.history[-1].time)
    return _NOT_YET if job.status.is_terminal_state() else 0


def _downtime(job: JobSnapshot, now: int) -> int:
    if job.status in (JobStatus.RUNNING, JobStatus.CREATED):
        return 0
    return _NOT_YET if job.status.is_terminal_state() else max(0, now - job.history[-1].time)


def _of_latest(read: Callable[[EpochStatistics], int]) -> _Reading:
    return lambda job, _: _NOT_YET if job.latest is None else read(job.latest)


JOB_METRICS: Final = (
    JobMetric("uptime", "Milliseconds since the job runs without interruption; -1 when it has ended.", _uptime),
    JobMetric("downtime", "Milliseconds since the job does not run; -1 when it has ended.", _downtime),
    JobMetric("numRestarts", "Restarts after failures, of this run.", lambda job, _: job.restarts),
    JobMetric("numRescales", "Changes of parallelism, of this run.", lambda job, _: job.rescales),
    JobMetric("numberOfCompletedCheckpoints", "Epochs that this run has completed.", lambda job, _: job.completed),
    JobMetric("numberOfFailedCheckpoints", "Epochs of this run that have failed.", lambda job, _: job.failed),
    JobMetric(
        "totalNumberOfCheckpoints", "Epochs of this run, failed ones too.", lambda job, _: job.completed + job.failed
    ),
    JobMetric("lastCompletedCheckpointId", "The number of the last epoch.", _of_latest(lambda latest: latest.epoch)),
    JobMetric(
        "lastCheckpointDuration",
        "Milliseconds that the last checkpoint took, behind the work of its epoch.",
        _of_latest(lambda latest: round(latest.checkpointing * 1000)),
    ),
    JobMetric(
        "lastCheckpointFullSize",
        "Bytes of all state at the last checkpoint.",
        _of_latest(lambda each: each.state_bytes),
    ),
    JobMetric(
        "lastCheckpointRestoreTimestamp",
        "When the job has last gone on from a checkpoint, in milliseconds since 1970; -1 when it has not.",
        lambda job, _: _NOT_YET if job.restored is None else job.restored,
    ),
    JobMetric(
        "pendingCommittables",
        "Epochs of sinks that are complete and not committed yet.",
        lambda job, _: 0 if job.latest is None else job.latest.pending_commits,
    ),
    JobMetric(
        "lastEpochDuration",
        "Milliseconds that the last epoch took, with its checkpoint.",
        _of_latest(lambda latest: round(latest.seconds * 1000)),
    ),
    JobMetric(
        "lastEpochPlanningTime",
        "Milliseconds of that in which sources looked what there is to read.",
        _of_latest(lambda latest: round(latest.planning * 1000)),
    ),
    JobMetric(
        "lastEpochRunningTime",
        "Milliseconds of that in which tasks ran.",
        _of_latest(lambda latest: round(latest.running * 1000)),
    ),
    JobMetric(
        "lastEpochWaitingTime",
        "Milliseconds of that in which the job waited for sinks that have to commit earlier epochs.",
        _of_latest(lambda latest: round(latest.waiting * 1000)),
    ),
    JobMetric("lastEpochRecords", "Records that the last epoch has read.", _of_latest(lambda latest: latest.records)),
)
"""The metrics of a job, in the scope ``jobmanager.job``."""

JOB_MANAGER_METRICS: Final = (
    JobMetric(
        "numRunningJobs",
        "1 while the job runs: each job has a driver of its own.",
        lambda job, _: int(job.status is JobStatus.RUNNING),
    ),
)
"""The metrics of the driver, in the scope ``jobmanager``."""

MEASURED_STATUSES: Final = tuple(
    status for status in JobStatus if not (status.is_terminal_state() or status is JobStatus.RECONCILING)
)
"""The statuses whose times are reported."""


def _state(status: JobStatus) -> _Reading:
    return lambda job, _: int(job.status is status)


def _time(status: JobStatus) -> _Reading:
    return lambda job, now: max(0, now - job.history[-1].time) if job.status is status else 0


def _total(status: JobStatus) -> _Reading:
    def read(job: JobSnapshot, now: int) -> int:
        ends = [*(change.time for change in job.history[1:]), now]
        spans = zip(job.history, ends, strict=True)
        return sum(max(0, end - change.time) for change, end in spans if change.status is status)

    return read


STATUS_METRICS: Final[Mapping[str, tuple[str, str, Callable[[JobStatus], _Reading]]]] = {
    "STATE": ("State", "1 while the job has this status, else 0.", _state),
    "CURRENT_TIME": ("Time", "Milliseconds since the job has this status; 0 when it has another.", _time),
    "TOTAL_TIME": ("TimeTotal", "Milliseconds for which this run has had this status altogether.", _total),
}
"""By the values of ``metrics.job.status.enable``: what stands behind the name of a status, what it says, and how."""


@dataclass(frozen=True, slots=True)
class OperatorMetric:
    """A metric of an operator.

    Attributes:
        description: what it says, for people.
        kind: its kind.
        scopes: where it is; a task is one operator of one subtask.
    """

    description: str
    kind: MetricKind = MetricKind.GAUGE
    scopes: tuple[ScopeKind, ...] = (ScopeKind.OPERATOR,)


_OF_TASKS: Final = (ScopeKind.TASK,)
_OF_BOTH: Final = (ScopeKind.TASK, ScopeKind.OPERATOR)
_COUNTER: Final = MetricKind.COUNTER
_METER: Final = MetricKind.METER

OPERATOR_METRICS: Final[Mapping[str, OperatorMetric]] = {
    registry.RECORDS_IN: OperatorMetric(
        "Records that went into the operator; of a source, that it has read.", _COUNTER, _OF_BOTH
    ),
    registry.RECORDS_OUT: OperatorMetric("Records that it has emitted.", _COUNTER, _OF_BOTH),
    registry.BYTES_IN: OperatorMetric("Bytes of records that came to it from other tasks.", _COUNTER, _OF_TASKS),
    registry.BYTES_OUT: OperatorMetric("Bytes of records that went from it to other tasks.", _COUNTER, _OF_TASKS),
    registry.RECORDS_IN_RATE: OperatorMetric("`numRecordsIn` in a second, over the last minute.", _METER, _OF_BOTH),
    registry.RECORDS_OUT_RATE: OperatorMetric("`numRecordsOut` in a second, likewise.", _METER, _OF_BOTH),
    registry.BYTES_IN_RATE: OperatorMetric("`numBytesIn` in a second, likewise.", _METER, _OF_TASKS),
    registry.BYTES_OUT_RATE: OperatorMetric("`numBytesOut` in a second, likewise.", _METER, _OF_TASKS),
    registry.BUSY_RATE: OperatorMetric(
        "Milliseconds of a second in which it was at work, over the last minute.", scopes=_OF_TASKS
    ),
    registry.IDLE_RATE: OperatorMetric("Milliseconds of a second in which it had nothing to do.", scopes=_OF_TASKS),
    registry.BACK_PRESSURED_RATE: OperatorMetric(
        "Milliseconds of a second in which it had more to do, and waited for those behind it.", scopes=_OF_TASKS
    ),
    registry.BUSY_TIME: OperatorMetric("Milliseconds in which it was at work, since the run began.", scopes=_OF_TASKS),
    registry.IDLE_TIME: OperatorMetric("Milliseconds in which it had nothing to do, likewise.", scopes=_OF_TASKS),
    registry.BACK_PRESSURED_TIME: OperatorMetric(
        "Milliseconds in which it waited for those behind it, likewise.", scopes=_OF_TASKS
    ),
    registry.RECORDS_IN_ERRORS: OperatorMetric("Messages that no record could be made of.", _COUNTER),
    registry.SEND_ERRORS: OperatorMetric("Records that no message could be made of.", _COUNTER),
    registry.LATE_DROPPED: OperatorMetric("Records that came too late and went to no side output.", _COUNTER),
    registry.RULES_REJECTED: OperatorMetric(
        "Records of a stream of rules that changed nothing, and went to no side output.", _COUNTER
    ),
    registry.ROWS_DROPPED: OperatorMetric(
        "Rows of windows that are now declared differently, which were dropped.", _COUNTER
    ),
    registry.ROWS_MOVED: OperatorMetric("The same, where they have gone to the windows that there are now.", _COUNTER),
    registry.FILES_MISSING: OperatorMetric("Files that were gone when they were to be read.", _COUNTER),
    registry.FILES_CORRUPT: OperatorMetric("Files that could not be read to their end.", _COUNTER),
    registry.LOOKUP_CACHE_HITS: OperatorMetric("Records whose key was found in the cache.", _COUNTER),
    registry.LOOKUP_MISSES: OperatorMetric("Records whose key nothing was found for.", _COUNTER),
    registry.VIOLATIONS: OperatorMetric("Records that violate an expectation.", _COUNTER),
    registry.ASYNC_TIMEOUTS: OperatorMetric("Requests that had no result in time.", _COUNTER),
    registry.ASYNC_RETRIES: OperatorMetric("Attempts of requests that were not the first.", _COUNTER),
    registry.INPUT_WATERMARK: OperatorMetric(
        "The watermark that its inputs have reached, in milliseconds.", scopes=_OF_BOTH
    ),
    registry.OUTPUT_WATERMARK: OperatorMetric("The watermark that it has passed on, in milliseconds."),
    registry.WATERMARK_LAG: OperatorMetric("How far its watermark is behind the job's clock, in milliseconds."),
    registry.ALIGNMENT_DRIFT: OperatorMetric(
        "How far the fastest split is ahead of the slowest one of its group, in milliseconds."
    ),
    "pendingRecords": OperatorMetric("Records that a source has and has not read yet; may be an estimate."),
    "pendingBytes": OperatorMetric("Bytes that a source has and has not read yet."),
    "currentFetchEventTimeLag": OperatorMetric(
        "How old, by its timestamp, the last record was when the epoch began that read it, in milliseconds."
    ),
    "currentEmitEventTimeLag": OperatorMetric("How old it was when that epoch was complete, in milliseconds."),
    "sourceIdleTime": OperatorMetric("Milliseconds since something was last read from a source."),
    "isProcessingBacklog": OperatorMetric("1 while a source reads what is history, else 0."),
    "kafkaClustersCount": OperatorMetric("Clusters that a dynamic Kafka source reads from."),
}
"""The metrics of operators, in the scope ``taskmanager.job.task.operator``."""

SPLIT_METRICS: Final[Mapping[str, OperatorMetric]] = {
    registry.SPLIT_WATERMARK: OperatorMetric("The watermark of a split of a source, in milliseconds."),
}
"""The metrics of splits, in the groups ``split.<split>.watermark`` of their source."""


_OF_FUNCTIONS: Final = OperatorMetric("")


def driver_place() -> dict[str, str]:
    """The labels of where a job of this process runs."""
    host = socket.gethostname()
    return {"host": host, "tm_id": f"{host}-{os.getpid()}"}


def _status_metrics(wanted: Collection[str]) -> Iterator[JobMetric]:
    for name in wanted:
        suffix, description, reading = STATUS_METRICS[name]
        for status in MEASURED_STATUSES:
            yield JobMetric(f"{status.name.lower()}{suffix}", description, reading(status))


class JobSampler:
    """Makes samples of the snapshots of one run of a job; from any thread.

    Args:
        configuration: the job's.
        place: ``host`` and ``tm_id``: the labels of where the job runs.
    """

    def __init__(self, configuration: Configuration, place: Mapping[str, str]) -> None:
        self._formats = ScopeFormats(configuration)
        self._place = place
        statuses = configuration.get(options.METRICS_OF_JOB_STATUS)
        self._of_job = (*JOB_METRICS, *_status_metrics(statuses))
        self._lock = threading.Lock()
        self._scopes: _JobScopes | None = None

    def samples(self, job: JobSnapshot, now: int) -> list[MetricSample]:
        """All metrics of a job at a moment, in milliseconds of the system's clock; none before it has begun.

        What is known of an operator as a whole, and not by subtask, is that of its subtask 0: so sums and maxima over
        its subtasks are right.
        """
        if job.start is None or job.plan is None:
            return []
        with self._lock:
            scopes = self._scopes_of(job, job.plan)
        found = [
            MetricSample(scope, metric.name, metric.kind, metric.read(job, now), metric.description)
            for scope, metrics in ((scopes.job_manager, JOB_MANAGER_METRICS), (scopes.job, self._of_job))
            for metric in metrics
        ]
        if job.latest is not None:
            found.extend(_OperatorSampler(scopes, job, job.latest, now).samples())
        return found

    def _scopes_of(self, job: JobSnapshot, plan: JobPlan) -> _JobScopes:
        if self._scopes is None or not self._scopes.are_of(job, plan):
            self._scopes = _JobScopes(self._formats, self._place, job, plan)
        return self._scopes


class _JobScopes:
    """The scopes of everything in a job that is measured.

    Args:
        formats: how they are written.
        place: as of :class:`JobSampler`.
        job: the job.
        plan: its plan.
    """

    def __init__(self, formats: ScopeFormats, place: Mapping[str, str], job: JobSnapshot, plan: JobPlan) -> None:
        assert job.start is not None
        self._formats = formats
        self._plan, self._attempt = plan, job.restarts
        self._variables = {**place, "job_id": job.start.job_id, "job_name": job.name}
        self._names = plan.shown_names()
        self.job_manager = formats.scope(ScopeKind.JOB_MANAGER, self._variables)
        self.job = formats.scope(ScopeKind.JOB, self._variables)
        self.of_operator = cache(self._of_operator)

    def are_of(self, job: JobSnapshot, plan: JobPlan) -> bool:
        """Return whether they still hold."""
        return self._plan is plan and self._attempt == job.restarts

    def knows(self, uid: str) -> bool:
        """Return whether there is such an operator."""
        return uid in self._names

    def _of_operator(
        self,
        uid: str,
        subtask: int,
        groups: tuple[MetricGroupName, ...] = (),
        kind: ScopeKind = ScopeKind.OPERATOR,
    ) -> MetricScope:
        if groups:
            return self.of_operator(uid, subtask, (), kind).within(groups)
        name, known = self._names[uid], operator_id(uid)
        variables = {
            **self._variables,
            "task_id": known,
            "task_name": name,
            "task_attempt_id": operator_id(f"{uid} {subtask} {self._attempt}"),
            "task_attempt_num": str(self._attempt),
            "subtask_index": str(subtask),
            "operator_id": known,
            "operator_name": name,
        }
        return self._formats.scope(kind, variables)


class _OperatorSampler:
    """Makes the samples of all operators of a job as of one epoch."""

    def __init__(self, scopes: _JobScopes, job: JobSnapshot, latest: EpochStatistics, now: int) -> None:
        self._scopes = scopes
        self._job = job
        self._latest = latest
        self._measured = latest.measured or FunctionMetrics()
        self._now = now
        self._clock = max(now, latest.processing_time)

    def samples(self) -> Iterator[MetricSample]:
        """All of them."""
        yield from self._counters()
        yield from self._workload()
        yield from self._of_functions()
        yield from self._gauges()
        yield from self._splits()

    def _counters(self) -> Iterator[MetricSample]:
        meters = {(key.uid, key.name + EVENTS) for key in self._measured.rates}
        for uid, counters in self._latest.operator_counters.items():
            for name, totals in counters.items() if self._scopes.knows(uid) else ():
                if (uid, name) in meters:
                    continue
                for subtask, total in enumerate(totals):
                    yield from self._samples(MetricKey(uid, subtask, name), MetricKind.COUNTER, total)

    def _workload(self) -> Iterator[MetricSample]:
        """Rates of counters, and where time goes."""
        for key, value in self._job.workload.metrics(self._now).items():
            if key.subtask is not None and self._scopes.knows(key.uid):
                counter = COUNTERS.get(key.name)
                if counter is None:
                    yield from self._samples(key, MetricKind.GAUGE, value)
                else:
                    total = self._latest.operator_counters[key.uid][counter][key.subtask]
                    yield from self._samples(key, MetricKind.METER, MeterReading(total, value))

    def _of_functions(self) -> Iterator[MetricSample]:
        measured = self._measured
        for key, value in measured.gauges.items():
            yield from self._samples(key, MetricKind.GAUGE, value)
        for key, rate in measured.rates.items():
            totals = self._latest.operator_counters.get(key.uid, {}).get(key.name + EVENTS, ())
            count = totals[key.subtask] if key.subtask is not None and key.subtask < len(totals) else 0
            yield from self._samples(key, MetricKind.METER, MeterReading(count, rate.per_second(self._clock)))
        for key, summary in measured.distributions.items():
            yield from self._samples(key, MetricKind.HISTOGRAM, summary)

    def _gauges(self) -> Iterator[MetricSample]:
        """Return where event time and sources are."""
        found: dict[MetricKey, float] = {}
        for source in self._latest.sources:
            found |= source.metrics(self._clock)
        if self._latest.event_time is not None:
            found |= self._latest.event_time.of_operators()
        by_subtask = {(key.uid, key.name) for key in found if key.subtask is not None}
        for key, value in found.items():
            if key.subtask is not None or (key.uid, key.name) not in by_subtask:
                yield from self._samples(key, MetricKind.GAUGE, value)

    def _splits(self) -> Iterator[MetricSample]:
        progress = self._latest.event_time
        for split in () if progress is None else progress.splits:
            if split.watermarks:
                scope = self._scopes.of_operator(split.uid, 0, (("split", split.split_id), ("watermark", None)))
                description = SPLIT_METRICS[SPLIT_WATERMARK].description
                yield MetricSample(scope, SPLIT_WATERMARK, MetricKind.GAUGE, split.watermark, description)

    def _samples(
        self, key: MetricKey, kind: MetricKind, value: float | MeterReading | Summary
    ) -> Iterator[MetricSample]:
        """One for each scope that the metric is in."""
        groups = self._measured.groups.get((key.uid, key.name), ())
        around = sum(len(part) + 1 for group in groups for part in group if part is not None)
        known, subtask = OPERATOR_METRICS.get(key.name, _OF_FUNCTIONS), key.subtask or 0
        for each in known.scopes:
            scope = self._scopes.of_operator(key.uid, subtask, groups, each)
            yield MetricSample(scope, key.name[around:], kind, value, known.description)
