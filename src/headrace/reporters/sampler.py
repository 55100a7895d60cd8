"""Makes samples of a job's status: every metric with its scope."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.metrics import FunctionMetrics, MetricKey
from headrace.jobmanager.status import JobSnapshot
from headrace.jobmanager.workload import COUNTERS
from headrace.metrics.registry import EVENTS, SPLIT_WATERMARK, MetricGroupName, Summary
from headrace.metrics.samples import MeterReading, MetricKind, MetricSample
from headrace.metrics.scopes import MetricScope, ScopeFormats, ScopeKind
from headrace.plan.job_plan import JobPlan, operator_id
from headrace.reporters.catalog import (
    JOB_MANAGER_METRICS,
    JOB_METRICS,
    MEASURED_STATUSES,
    OPERATOR_METRICS,
    SPLIT_METRICS,
    STATUS_METRICS,
    JobMetric,
    OperatorMetric,
)

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

        What is known of an operator as a whole, and not by subtask, is told of its subtask 0: so sums and maxima over
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
