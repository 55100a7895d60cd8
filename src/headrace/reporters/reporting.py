"""The reporters of a configuration, and the listener that hands the status of a job to them.

Options are ``metrics.reporter.<name>.<option>`` and ``traces.reporter.…``. Reporters have threads of their own, so that
no epoch waits.
"""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headrace.common import options
from headrace.common.config_options import ConfigOption, parse_list, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger, with_fields
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.type_variables import T
from headrace.jobmanager.events import JobEnd, JobEvent, JobStart
from headrace.jobmanager.status import JobSnapshot
from headrace.metrics.samples import MetricFilter, MetricKind, MetricPattern, MetricSample
from headrace.reporters.reporter import (
    FLINK_FACTORIES,
    FLINK_TRACE_FACTORIES,
    METRIC_REPORTERS,
    TRACE_REPORTERS,
    MetricReporter,
    ReporterContext,
    TraceContext,
    TraceReporter,
)
from headrace.reporters.sampler import JobSampler, driver_place
from headrace.reporters.spans import Span, SpanMaker
from headrace.time.clock import SystemClock

logger = get_logger(__name__)


def _text_list(text: str) -> tuple[str, ...]:
    return tuple(str(item).strip() for item in parse_list(text))


def _patterns(text: str) -> tuple[MetricPattern, ...]:
    return tuple(MetricPattern.parse(item) for item in _text_list(text))


def _labels(text: str) -> Mapping[str, str]:
    """``region:eu,tier:gold``."""
    found: dict[str, str] = {}
    for pair in filter(str.strip, text.split(",")):
        name, separator, value = (part.strip() for part in pair.partition(":"))
        if not (separator and name and value):
            raise ValueError("labels such as 'region:eu,tier:gold'")
        found[name] = value
    return found


FACTORY: Final = ConfigOption[str | None](
    "factory.class", str, None, "Which reporter it is: its name, or its factory in Flink.", ("class",)
)
INTERVAL: Final = ConfigOption(
    "interval", positive_duration, 10_000, "The time between two reports, for those that are not scraped."
)
DELIMITER: Final = ConfigOption[str | None](
    "scope.delimiter", str, None, "As `metrics.scope.delimiter`, for this reporter."
)
EXCLUDED: Final[ConfigOption[tuple[str, ...]]] = ConfigOption(
    "scope.variables.excludes", _text_list, (), "Labels that are left out, with `;` between them."
)
ADDITIONAL: Final[ConfigOption[Mapping[str, str]]] = ConfigOption(
    "scope.variables.additional", _labels, {}, "Labels that all metrics have besides: `region:eu,tier:gold`."
)
INCLUDES: Final[ConfigOption[tuple[MetricPattern, ...]]] = ConfigOption(
    "filter.includes",
    _patterns,
    (MetricPattern.parse("*:*:*"),),
    "The metrics that are reported: `<scope>:<name>,<name>:<kind>,<kind>` with `*` for any text, and `;` between "
    "several; all when not set.",
)
EXCLUDES: Final[ConfigOption[tuple[MetricPattern, ...]]] = ConfigOption(
    "filter.excludes", _patterns, (), "Of these the metrics that are not, in the same notation."
)

COMMON_OPTIONS: Final = (FACTORY, INTERVAL, DELIMITER, EXCLUDED, ADDITIONAL, INCLUDES, EXCLUDES)
"""The options that every reporter of metrics has."""


COMMON_TRACE_OPTIONS: Final = (FACTORY, INTERVAL, ADDITIONAL)
"""The options that every reporter of spans has."""

R = TypeVar("R", bound=Plugin)
R_co = TypeVar("R_co", bound=Plugin, covariant=True)


@dataclass(frozen=True, slots=True)
class ReporterSettings(Generic[R_co]):
    """One reporter of a job.

    Attributes:
        name: its name in the configuration.
        reporter: the reporter, not open yet.
        common: the settings of all of its kind.
        options: its own options, checked.
    """

    name: str
    reporter: R_co
    common: Configuration
    options: Configuration

    def get(self, option: ConfigOption[T]) -> T:
        """The value of an option that all of its kind have."""
        return self.common.get(option)


@dataclass(frozen=True, slots=True)
class _ReporterKind(Generic[R]):
    """A kind of reporters.

    Attributes:
        names: the option that names those which are used.
        namespace: how the keys of their options begin.
        plugins: all that are there.
        factories: by the factories that Flink has, their names.
        common: the options that all have.
    """

    names: ConfigOption[str | None]
    namespace: str
    plugins: PluginGroup[R]
    factories: Mapping[str, str]
    common: tuple[ConfigOption, ...]

    def settings(self, configuration: Configuration) -> Iterator[ReporterSettings[R]]:
        """The settings of reporters in a configuration.

        Raises:
            ConfigurationError: when there is no such reporter, or one of its options cannot be read.
        """
        given = self._by_name(configuration)
        wanted = configuration.get(self.names)
        names = list(given) if wanted is None else list(filter(None, re.split(r"\s*[,;]\s*", wanted.strip())))
        for name in names:
            if name not in given:
                said = f"nothing is said of a reporter {name!r}: set {self.namespace}{name}.{FACTORY.key}"
                raise ConfigurationError(f"{self.names.key}: {said}")
        for name in names:
            try:
                yield self._made(name, given[name])
            except ConfigurationError as error:
                raise ConfigurationError(f"{self.namespace}{name}.: {error}") from error

    def _by_name(self, configuration: Configuration) -> dict[str, dict[str, str]]:
        """By the names of reporters, what is said of them."""
        found: dict[str, dict[str, str]] = {}
        for key, value in configuration.to_dict().items():
            if key.startswith(self.namespace):
                name, separator, option = key.removeprefix(self.namespace).partition(".")
                if not (name and separator and option):
                    raise ConfigurationError(f"{key}: write {self.namespace}<name>.<option>")
                found.setdefault(name, {})[option] = value
        return found

    def _made(self, name: str, given: Mapping[str, str]) -> ReporterSettings[R]:
        keys = {key for option in self.common for key in (option.key, *option.deprecated_keys)}
        common = Configuration.from_dict({key: value for key, value in given.items() if key in keys})
        for option in self.common:
            common.get(option)
        reporter = self.plugins.load(self._plugin_of(common))
        own = {key: value for key, value in given.items() if key not in keys}
        return ReporterSettings(name, reporter, common, reporter.read_options(own))

    def _plugin_of(self, given: Configuration) -> str:
        factory = given.get(FACTORY)
        if factory is None:
            known = ", ".join(self.plugins.names())
            raise ConfigurationError(f"{FACTORY.key} is not set; it says which reporter it is: {known}")
        return self.factories.get(factory) or self.factories.get(f"{factory}Factory") or factory


_METRICS: Final = _ReporterKind(
    options.METRIC_REPORTERS, options.REPORTER_NAMESPACE, METRIC_REPORTERS, FLINK_FACTORIES, COMMON_OPTIONS
)
_TRACES: Final = _ReporterKind(
    options.TRACE_REPORTERS,
    options.TRACE_REPORTER_NAMESPACE,
    TRACE_REPORTERS,
    FLINK_TRACE_FACTORIES,
    COMMON_TRACE_OPTIONS,
)


def reporters_of(configuration: Configuration) -> list[ReporterSettings[MetricReporter]]:
    """The reporters of metrics of a configuration.

    Raises:
        ConfigurationError: when what it says cannot be done.
    """
    return list(_METRICS.settings(configuration))


def trace_reporters_of(configuration: Configuration) -> list[ReporterSettings[TraceReporter]]:
    """The reporters of spans of a configuration.

    Raises:
        ConfigurationError: likewise.
    """
    return list(_TRACES.settings(configuration))


MOST_SPANS: Final = 10_000
"""The largest number of spans that wait for a reporter; of more, the oldest ones are dropped."""


class ReporterThread(ABC):
    """Drives one reporter: opens it, has it report at intervals and once more at the end, closes it.

    Args:
        settings: the reporter.
    """

    def __init__(self, settings: ReporterSettings[Plugin]) -> None:
        self.what = f"{settings.reporter} ({settings.name})"
        self._seconds = settings.get(INTERVAL) / 1000
        self._over = threading.Event()
        self._fails = False
        name = f"headrace-reporter-{settings.name}"
        self._thread = threading.Thread(target=with_fields(self._run), name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """The job has ended: have it report once more, and close."""
        self._over.set()

    def join(self, seconds: float) -> bool:
        """Wait for that; False when it is still at it."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @abstractmethod
    def _open(self) -> None:
        """The job begins."""

    @abstractmethod
    def _report(self) -> None:
        """Have it report what there is."""

    @abstractmethod
    def _close(self) -> None:
        """The job has ended."""

    def _run(self) -> None:
        if not self._attempted(self._open, "cannot begin: nothing is reported"):
            return
        while not self._over.wait(self._seconds):
            self._attempt_report()
        self._attempt_report()
        self._attempted(self._close, "failed to close")

    def _attempt_report(self) -> None:
        if self._attempted(self._report, "failed, and is tried again") and self._fails:
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


class MetricThread(ReporterThread):
    """Drives a reporter of metrics.

    Args:
        settings: the reporter.
        start: the job.
        samples: gives the present metrics of the job.
        delimiter: stands between the parts of names, unless the reporter has its own.
    """

    def __init__(
        self,
        settings: ReporterSettings[MetricReporter],
        start: JobStart,
        samples: Callable[[], list[MetricSample]],
        delimiter: str,
    ) -> None:
        super().__init__(settings)
        self._reporter = settings.reporter
        excluded = settings.get(EXCLUDED)
        self._samples = FilteredSamples(MetricFilter(settings.get(INCLUDES), settings.get(EXCLUDES)), samples)
        self._context = ReporterContext(
            settings.name,
            start.name,
            start.job_id,
            settings.options,
            settings.get(DELIMITER) or delimiter,
            self._samples,
            frozenset(excluded),
            settings.get(ADDITIONAL),
        )

    def _open(self) -> None:
        self._reporter.open(self._context)

    def _report(self) -> None:
        self._reporter.report(self._samples())

    def _close(self) -> None:
        self._reporter.close()


class FilteredSamples:
    """The metrics that a reporter is to have.

    Args:
        chosen: says which.
        samples: gives all.
    """

    def __init__(self, chosen: MetricFilter, samples: Callable[[], list[MetricSample]]) -> None:
        self._filter = chosen
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


class TraceThread(ReporterThread):
    """Drives a reporter of spans.

    Args:
        settings: the reporter.
        start: the job.
    """

    def __init__(self, settings: ReporterSettings[TraceReporter], start: JobStart) -> None:
        super().__init__(settings)
        self._reporter = settings.reporter
        self._waiting: deque[Span] = deque(maxlen=MOST_SPANS)
        self._context = TraceContext(
            settings.name, start.name, start.job_id, settings.options, settings.get(ADDITIONAL)
        )

    def add(self, spans: Iterable[Span]) -> None:
        """There are new spans; from any thread."""
        self._waiting.extend(spans)

    def _open(self) -> None:
        self._reporter.open(self._context)

    def _report(self) -> None:
        spans = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not spans:
            return
        try:
            self._reporter.report(spans)
        except Exception:
            room = MOST_SPANS - len(self._waiting)
            self._waiting.extendleft(reversed(spans[max(0, len(spans) - room) :]))
            raise

    def _close(self) -> None:
        self._reporter.close()


_PARTING_SECONDS: Final = 5.0
"""The time that all reporters of a job have together for their last report; those not done by then are abandoned."""


def reporting_of(configuration: Configuration) -> JobReporting | None:
    """Return what reports on a job as its configuration says; None if that names no reporters.

    Raises:
        ConfigurationError: when what it says cannot be done.
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
