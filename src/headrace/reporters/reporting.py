"""Has the reporters of a job show it: a listener that hands its status to their threads, so that no epoch waits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.logs import get_logger
from headrace.jobmanager.events import JobEnd, JobEvent, JobStart
from headrace.jobmanager.status import JobSnapshot
from headrace.metrics.samples import MetricSample
from headrace.reporters.reporter import MetricReporter, TraceReporter
from headrace.reporters.reporter_threads import MetricThread, TraceThread
from headrace.reporters.sampler import JobSampler, driver_place
from headrace.reporters.settings import ReporterSettings, reporters_of, trace_reporters_of
from headrace.reporters.spans import SpanMaker
from headrace.time.clock import SystemClock

logger = get_logger(__name__)

_PARTING_SECONDS: Final = 5.0
"""The time that all reporters of a job have together for their last report; those not done by then are abandoned."""


def reporting_of(configuration: Configuration) -> JobReporting | None:
    """Return what reports on a job as its configuration says; None where that asks for nothing.

    Raises:
        ConfigurationError: when what it asks for cannot be done.
    """
    metrics, traces = reporters_of(configuration), trace_reporters_of(configuration)
    return JobReporting(configuration, metrics, traces) if metrics or traces else None


class JobReporting:
    """Listens to one run of a job, and has its reporters show it.

    Args:
        configuration: the job's.
        metrics: the reporters of metrics.
        traces: the reporters of spans.
    """

    def __init__(
        self,
        configuration: Configuration,
        metrics: Sequence[ReporterSettings[MetricReporter]],
        traces: Sequence[ReporterSettings[TraceReporter]],
    ) -> None:
        self._sampler = JobSampler(configuration, driver_place())
        self._delimiter = configuration.get(options.METRIC_SCOPE_DELIMITER)
        self._clock = SystemClock()
        self._metrics, self._traces = metrics, traces
        self._spans = SpanMaker()
        self._job: JobSnapshot | None = None
        self._metric_threads: list[MetricThread] = []
        self._trace_threads: list[TraceThread] = []

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        self._job = job
        if isinstance(event, JobStart):
            self._start(event)
        if self._trace_threads:
            spans = list(self._spans.spans(event, job, time.time_ns()))
            for thread in self._trace_threads:
                thread.add(spans)
        if isinstance(event, JobEnd):
            self._end()

    def _start(self, start: JobStart) -> None:
        self._metric_threads = [MetricThread(each, start, self._samples, self._delimiter) for each in self._metrics]
        self._trace_threads = [TraceThread(each, start) for each in self._traces]
        for thread in (*self._metric_threads, *self._trace_threads):
            thread.start()

    def _samples(self) -> list[MetricSample]:
        return [] if self._job is None else self._sampler.samples(self._job, self._clock.now())

    def _end(self) -> None:
        threads = (*self._metric_threads, *self._trace_threads)
        for thread in threads:
            thread.end()
        until = time.monotonic() + _PARTING_SECONDS
        for thread in threads:
            if not thread.join(max(0.0, until - time.monotonic())):
                text = "%s did not finish within %g s and is left behind"
                logger.warning(text, thread.what, _PARTING_SECONDS)
