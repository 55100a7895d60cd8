"""``MetricGroup`` and what it makes. Names are those of PyFlink's module ``pyflink.metrics.metricbase``.

A function counts in its own process. What has come together in an epoch travels to the driver with the report of the
task, so it counts once, however often the task was run.
"""

from __future__ import annotations

from numbers import Integral, Real
from operator import index
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.common.arguments import expect, refused, shown
from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import other_names
from headrace.common.public_module import public_module
from headrace.metrics.measurements import Measurements, Summary

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

public_module(__name__)

M = TypeVar("M", bound="Metric")

OWN_NAMES: Final = frozenset(
    {
        "numRecordsIn",
        "numRecordsInErrors",
        "numRecordsSendErrors",
        "numLateRecordsDropped",
        "numLookupCacheHits",
        "numLookupMisses",
        "numAsyncTimeouts",
        "numAsyncRetries",
        "currentInputWatermark",
        "currentOutputWatermark",
        "watermarkLag",
        "watermarkAlignmentDrift",
    }
)
"""What headrace itself tells of operators."""


class Metric:
    """What a function tells about its work. Groups of metrics make them.

    Examples:
        >>> from headrace.metrics import Counter, Metric
        >>> isinstance(Counter(), Metric)
        True
    """


@other_names({"increment": "use inc(n)", "getCount": "use get_count()"})
class Counter(Metric):
    """A number that goes up and down.

    What a job shows of it is the sum over all subtasks since the job's first start. It is part of the checkpoint, so a
    record counts once, whatever fails.

    Examples:
        >>> from headrace.datastream import MapFunction
        >>> from headrace.testing import JobHarness
        >>> class Parse(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.empty = runtime_context.get_metrics_group().counter("empty")
        ...     def map(self, value):
        ...         if not value:
        ...             self.empty.inc()
        ...         return len(value)
        >>> def job(harness):
        ...     lengths = harness.add_source("words", str).map(Parse(), output_type=int).name("parse")
        ...     harness.add_sink("lengths", lengths)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("words", ["tea", "", ""])
        ...     harness.run_epoch()
        ...     print(harness.metrics()["parse.empty"])
        2
    """

    __slots__ = ("_count", "_taken")

    def __init__(self) -> None:
        self._count = self._taken = 0

    def inc(self, n: int = 1) -> None:
        """Adds to it."""
        self._count += n if type(n) is int else _whole(n, "inc")

    def dec(self, n: int = 1) -> None:
        """Takes from it."""
        self._count -= n if type(n) is int else _whole(n, "dec")

    def get_count(self) -> int:
        """What this instance of the function has counted, since it was opened."""
        return self._count

    def take(self) -> int:
        """What has come since the last call."""
        new, self._taken = self._count - self._taken, self._count
        return new


@other_names({"markEvent": "use mark_event(n)", "getRate": "it is among the job's metrics: JobClient.get_metrics()"})
class Meter(Metric):
    """How many events there are in a second, of all subtasks together.

    Args:
        time_span_in_seconds: the time over which it is the mean.

    Examples:
        >>> from headrace.metrics import Meter
        >>> meter = Meter(60)
        >>> meter.mark_event(3)
        >>> meter.get_count()
        3
    """

    __slots__ = ("_events", "time_span_in_seconds")

    def __init__(self, time_span_in_seconds: int) -> None:
        self.time_span_in_seconds = time_span_in_seconds
        self._events = Counter()

    def mark_event(self, value: int = 1) -> None:
        """So many events have happened."""
        self._events.inc(value)

    def get_count(self) -> int:
        """How many events this instance of the function has told of, since it was opened."""
        return self._events.get_count()

    def take(self) -> int:
        """What has come since the last call."""
        return self._events.take()


@other_names()
class Distribution(Metric):
    """How values are spread: how many there are, their sum and mean, the smallest and the largest one.

    Examples:
        >>> from headrace.metrics import Distribution
        >>> sizes = Distribution()
        >>> sizes.update(7)
        >>> sizes.update(9)
        >>> sizes.take()
        Summary(count=2, total=16, least=7, greatest=9)
    """

    __slots__ = ("_summary",)

    def __init__(self) -> None:
        self._summary: Summary | None = None

    def update(self, value: float) -> None:
        """One value more.

        Raises:
            InvalidTypeError: when it is no number.
        """
        number = _number(value, "Distribution.update")
        seen = Summary(1, number, number, number)
        self._summary = seen if self._summary is None else self._summary.and_of(seen)

    def take(self) -> Summary | None:
        """That of the values since the last call; None where there were none."""
        taken, self._summary = self._summary, None
        return taken


class Gauge(Metric):
    """A value that is asked for at the end of each epoch.

    Args:
        value: gives it.
    """

    __slots__ = ("_name", "_value")

    def __init__(self, name: str, value: Callable[[], Any]) -> None:
        self._name = name
        self._value = value

    def value(self) -> float:
        """What it is now.

        Raises:
            InvalidTypeError: when it is no number.
        """
        return _number(self._value(), f"gauge {self._name!r}")


class MetricRegistry:
    """The metrics of one operator in one subtask, by the names of their groups and their own."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def registered(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        """The metric of a name, which is made when it is first asked for.

        Raises:
            InvalidProgramError: when there is one of another kind.
        """
        known = self._metrics.setdefault(name, _NONE)
        if known is _NONE:
            known = self._metrics[name] = make()
        if not isinstance(known, kind):
            raise refused(f"there is a {type(known).__name__} {name!r} already: give the {kind.__name__} another name")
        return known

    def replaced(self, name: str, gauge: Gauge) -> None:
        """A gauge, in place of an earlier one of its name."""
        self.registered(name, Gauge, lambda: gauge)
        self._metrics[name] = gauge

    def take(self) -> Measurements | None:
        """What has come since the last call, and what gauges give now; None where there are no metrics."""
        if not self._metrics:
            return None
        kinds: dict[type[Metric], dict[str, Any]] = {kind: {} for kind in (Counter, Meter, Gauge, Distribution)}
        for name, metric in self._metrics.items():
            kinds[type(metric)][name] = metric
        summaries = {name: distribution.take() for name, distribution in kinds[Distribution].items()}
        return Measurements(
            counters={name: counter.take() for name, counter in kinds[Counter].items()},
            meters={name: (meter.take(), meter.time_span_in_seconds) for name, meter in kinds[Meter].items()},
            gauges={name: gauge.value() for name, gauge in kinds[Gauge].items()},
            distributions={name: summary for name, summary in summaries.items() if summary is not None},
        )


_NONE: Final = Metric()


@other_names({"histogram": "use distribution(name)", "addGroup": "use add_group(name)"})
class MetricGroup:
    """Makes metrics, and groups within itself. That of an operator is what ``get_metrics_group()`` gives.

    What a job has measured is in ``JobClient.get_metrics()``, as ``<operator>.<groups>.<name>``.

    Args:
        registry: where they are kept.
        prefix: the names of the groups around it, each with a dot behind it.

    Examples:
        >>> from headrace.metrics import MetricGroup
        >>> from headrace.metrics.metricbase import MetricRegistry
        >>> registry = MetricRegistry()
        >>> http = MetricGroup(registry).add_group("http")
        >>> http.add_group("status", "404").counter("answers").inc()
        >>> http.gauge("open", lambda: 3)
        >>> registry.take()
        Measurements(counters={'http.status.404.answers': 1}, meters={}, gauges={'http.open': 3}, distributions={})
    """

    def __init__(self, registry: MetricRegistry, prefix: str = "") -> None:
        self._registry = registry
        self._prefix = prefix

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group in this one; with ``extra`` ``name`` is what is told apart, and ``extra`` which it is."""
        for each in (name, extra or ""):
            expect(each, str, "add_group")
        return MetricGroup(self._registry, f"{self._prefix}{name}." + (f"{extra}." if extra else ""))

    def counter(self, name: str) -> Counter:
        """A number that is counted; asking again for a name gives the same counter.

        Raises:
            InvalidProgramError: when the name is taken by another kind of metric, or by one of headrace's own.
        """
        return self._registry.registered(self._full_name(name, "counter"), Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """A value, of each subtask by itself: ``<operator>.<subtask>.<name>``, subtasks from 0.

        Args:
            name: its name; a gauge that has it is replaced.
            obj: gives the number; it is called at the end of each epoch. What it raises fails the job.

        Raises:
            InvalidProgramError: as :meth:`counter`.
        """
        full_name = self._full_name(name, "gauge")
        if not callable(obj):
            raise refused(f"gauge takes a function that gives a number, not {shown(obj)}", InvalidTypeError)
        self._registry.replaced(full_name, Gauge(full_name, obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Events in a second; ``<name>.count`` is how many there were since the job's first start.

        Args:
            name: its name.
            time_span_in_seconds: the time over which it is the mean.

        Raises:
            InvalidProgramError: as :meth:`counter`, and when there is no time in the span.
        """
        expect(time_span_in_seconds, int, "meter(time_span_in_seconds)")
        if time_span_in_seconds <= 0:
            raise refused(f"meter: a time span of {time_span_in_seconds} seconds has no rate; give 1 or more")
        return self._registry.registered(self._full_name(name, "meter"), Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """How values are spread: ``<name>.count``, ``.sum``, ``.mean``, ``.min``, ``.max`` since the job began to run.

        Raises:
            InvalidProgramError: as :meth:`counter`.
        """
        return self._registry.registered(self._full_name(name, "distribution"), Distribution, Distribution)

    def _full_name(self, name: str, method: str) -> str:
        expect(name, str, method)
        full_name = self._prefix + name
        if not name or full_name in OWN_NAMES:
            reason = "headrace itself tells of operators under this name" if name else "it has no letter"
            raise refused(f"{method}: {name!r} cannot be the name of a metric, since {reason}")
        return full_name


def _whole(n: object, method: str) -> int:
    if isinstance(n, Integral) and not isinstance(n, bool):
        return index(n)
    raise refused(f"{method} takes an integer, not {shown(n)}", InvalidTypeError)


def _number(value: object, what: str) -> float:
    if isinstance(value, Integral):
        return index(value)
    if isinstance(value, Real):
        return float(value)
    raise refused(f"{what}: expected a number, got {shown(value)}", InvalidTypeError)
