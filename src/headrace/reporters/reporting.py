"""Runs the reporters of a job, each in a thread of its own, so that none is in the way of an epoch, or of another."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from headrace.common.configuration import Configuration
from headrace.common.logs import get_logger, with_fields
from headrace.jobmanager.status import JobEnd, JobEvent, JobSnapshot, JobStart
from headrace.metrics.samples import MetricKind, MetricSample
from headrace.reporters.reporter import ReporterContext
from headrace.reporters.sampler import JobSampler
from headrace.reporters.settings import ReporterSettings, reporters_of
from headrace.time.clock import SystemClock

logger = get_logger(__name__)

_PARTING_SECONDS: Final = 5.0
"""So long all reporters of a job have together for their last report; who is not done then is left behind."""


def reporting_of(configuration: Configuration) -> JobReporting | None:
    """What reports the metrics of a job as its configuration says; None where that asks for nothing.

    Raises:
        ConfigurationError: when what it asks for cannot be done.
    """
    settings = reporters_of(configuration)
    return JobReporting(settings, configuration) if settings else None


class JobReporting:
    """Listens to one run of a job, and has its reporters show it.

    Args:
        settings: the reporters.
        configuration: the job's.
    """

    def __init__(self, settings: Sequence[ReporterSettings], configuration: Configuration) -> None:
        host = socket.gethostname()
        self._sampler = JobSampler(configuration, {"host": host, "tm_id": f"{host}-{os.getpid()}"})
        self._clock = SystemClock()
        self._settings = settings
        self._job: JobSnapshot | None = None
        self._threads: list[_ReporterThread] = []

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        self._job = job
        if isinstance(event, JobStart):
            self._threads = [_ReporterThread(each, event, self._samples) for each in self._settings]
            for thread in self._threads:
                thread.start()
        elif isinstance(event, JobEnd):
            self._end()

    def _samples(self) -> list[MetricSample]:
        return [] if self._job is None else self._sampler.samples(self._job, self._clock.now())

    def _end(self) -> None:
        for thread in self._threads:
            thread.end()
        until = time.monotonic() + _PARTING_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                logger.warning(
                    "%s has not come to its end within %g s and is left behind", thread.what, _PARTING_SECONDS
                )


class _ReporterThread:
    """Drives one reporter. What goes wrong is logged when it begins to, and when it works again.

    Args:
        settings: the reporter.
        start: the job.
        samples: gives the present metrics of the job.
    """

    def __init__(self, settings: ReporterSettings, start: JobStart, samples: Callable[[], list[MetricSample]]) -> None:
        self.what = f"{settings.reporter} ({settings.name})"
        self._settings = settings
        self._samples = _Filtered(settings, samples)
        self._context = ReporterContext(
            settings.name,
            start.name,
            start.job_id,
            settings.options,
            settings.delimiter,
            self._samples,
            frozenset(settings.excluded),
            settings.additional,
        )
        self._over = threading.Event()
        self._fails = False
        run = with_fields(self._run)
        self._thread = threading.Thread(target=run, name=f"headrace-reporter-{settings.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """The job has ended: have it report once more, and close."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """Wait for that."""
        self._thread.join(seconds)

    def is_alive(self) -> bool:
        """Return whether it is still at it."""
        return self._thread.is_alive()

    def _run(self) -> None:
        reporter, seconds = self._settings.reporter, self._settings.interval / 1000
        if not self._attempted(lambda: reporter.open(self._context), "cannot begin: nothing is reported"):
            return
        while not self._over.wait(seconds):
            self._report()
        self._report()
        self._attempted(reporter.close, "failed to close")

    def _report(self) -> None:
        reporter = self._settings.reporter
        if self._attempted(lambda: reporter.report(self._samples()), "failed, and is tried again") and self._fails:
            logger.info("%s works again", self.what)
            self._fails = False

    def _attempted(self, work: Callable[[], None], trouble: str) -> bool:
        try:
            work()
        except Exception as error:
            if not self._fails:
                logger.warning("%s %s: %s: %s", self.what, trouble, type(error).__name__, error)
            logger.debug("%s %s", self.what, trouble, exc_info=True)
            self._fails = True
            return False
        return True


class _Filtered:
    """The metrics that a reporter is to have."""

    def __init__(self, settings: ReporterSettings, samples: Callable[[], list[MetricSample]]) -> None:
        self._filter = settings.filter
        self._samples = samples
        self._known: dict[tuple[tuple[str, ...], str, MetricKind], bool] = {}

    def __call__(self) -> list[MetricSample]:
        return [sample for sample in self._samples() if self._takes(sample)]

    def _takes(self, sample: MetricSample) -> bool:
        key = (sample.scope.logical, sample.name, sample.kind)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._filter.takes(sample)
        return known
