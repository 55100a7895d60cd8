"""The metrics of one operator in one subtask: their kinds, their names, and what they have come to in an epoch.

Some names are those of headrace's own metrics of operators; functions cannot give them to theirs.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from operator import index
from typing import Final, TypeAlias, TypeVar

import numpy as np

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError, refused, shown, with_article

EVENTS: Final = ".count"
"""The suffix of the number of a meter's events, behind the meter's name; its rate has the name itself."""

OF_DISTRIBUTIONS: Final = (".count", ".sum", ".mean", ".min", ".max")
"""The suffixes of the figures of a distribution, behind its name."""

PARTS: Final = 1000
"""Events that are no further apart than this part of a time span are kept as one number."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The values that a distribution was given.

    Attributes:
        count: how many.
        total: their sum.
        least: the smallest one; NaN where there is one among them.
        greatest: the largest one, likewise.
    """

    count: int
    total: float
    least: float
    greatest: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count

    def and_of(self, other: "Summary") -> "Summary":
        """The summary of the values of both."""
        return Summary(
            self.count + other.count,
            self.total + other.total,
            lesser(self.least, other.least),
            greater(self.greatest, other.greatest),
        )

    def shown(self, name: str) -> dict[str, float]:
        """The figures of a distribution, by the names under which they are shown."""
        figures = (self.count, self.total, self.mean, self.least, self.greatest)
        return {f"{name}{what}": number for what, number in zip(OF_DISTRIBUTIONS, figures, strict=True)}


def lesser(one: float, other: float) -> float:
    """The smaller number of two; NaN where one of them is: with ``min`` it would depend on their order."""
    return one if one < other else other if other <= one else math.nan


def greater(one: float, other: float) -> float:
    """The larger number of two, likewise."""
    return one if one > other else other if other >= one else math.nan


def as_number(value: object) -> float | None:
    """A value of a program as a number of Python; None where it is no number."""
    if isinstance(value, Integral | np.bool_):
        return int(value)
    if isinstance(value, Real | Decimal):
        return float(value)
    return None


@dataclass(frozen=True, slots=True)
class Rate:
    """The events of a meter in the last so many milliseconds, at most ``PARTS`` and one numbers of them.

    Attributes:
        millis: over how long it is the mean.
        events: numbers of events, each with the reading of the clock when the first of them came.
    """

    millis: int
    events: tuple[tuple[int, int], ...] = ()

    def after(self, now: int, count: int) -> "Rate":
        """The rate once ``count`` more events have come by a reading of the clock."""
        kept = self._kept(now)
        if kept and (now - kept[-1][0]) * PARTS < self.millis:
            since, before = kept[-1]
            return Rate(self.millis, (*kept[:-1], (since, before + count)))
        return Rate(self.millis, (*kept, (now, count)))

    def per_second(self, now: int) -> float:
        """The rate at a reading of the clock."""
        return sum(count for _, count in self._kept(now)) * 1000 / self.millis

    def _kept(self, now: int) -> tuple[tuple[int, int], ...]:
        start = next((n for n, (since, _) in enumerate(self.events) if since > now - self.millis), len(self.events))
        return self.events[start:]


MetricGroupName: TypeAlias = tuple[str, str | None]
"""A group of metrics: its name, and where the name is that of a key, its value."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """All metrics of an operator in a subtask; names have the names of their groups before them, with dots.

    A metric that has counted nothing is reported once, when it is new.

    Attributes:
        counters: what counters have counted in the epoch.
        meters: how many events meters have marked in the epoch, and over how many seconds their rate is.
        gauges: what gauges gave at the end of the epoch.
        distributions: the values of the epoch.
        groups: of new metrics that are in groups, these, the outermost one first.
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    meters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Summary] = field(default_factory=dict)
    groups: Mapping[str, tuple[MetricGroupName, ...]] = field(default_factory=dict)


class Metric:
    """A measured value of a function. Groups of metrics make them.

    Examples:
        >>> from headrace.metrics import Counter, Metric
        >>> isinstance(Counter(), Metric)
        True
    """


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
        amount = n if type(n) is int else _whole(n, "inc")  # before the counter is read: other threads may count too
        self._count += amount

    def dec(self, n: int = 1) -> None:
        """Takes from it."""
        amount = n if type(n) is int else _whole(n, "dec")
        self._count -= amount

    def get_count(self) -> int:
        """Return the count of this instance of the function since it was opened."""
        return self._count

    def take(self) -> int:
        """Return the change since the last call."""
        count = self._count
        new, self._taken = count - self._taken, count
        return new


class Meter(Metric):
    """The number of events in a second, of all subtasks together.

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
        """Count events that have happened."""
        self._events.inc(value if type(value) is int else _whole(value, "mark_event"))

    def get_count(self) -> int:
        """Return how many events this instance of the function has marked since it was opened."""
        return self._events.get_count()

    def take(self) -> int:
        """Return the change since the last call."""
        return self._events.take()


class Distribution(Metric):
    """The distribution of values: their number, sum and mean, the smallest and the largest one.

    Examples:
        >>> from headrace.metrics import Distribution
        >>> sizes = Distribution()
        >>> sizes.update(7)
        >>> sizes.update(9)
        >>> sizes.take()
        Summary(count=2, total=16, least=7, greatest=9)
    """

    __slots__ = ("_count", "_greatest", "_least", "_total")

    def __init__(self) -> None:
        self._count: int = 0
        self._total: float = 0
        self._least: float = 0
        self._greatest: float = 0

    def update(self, value: float) -> None:
        """One value more.

        Raises:
            InvalidTypeError: when it is no number.
        """
        number = value if type(value) is int or type(value) is float else _number(value)
        if self._count:
            self._least, self._greatest = lesser(self._least, number), greater(self._greatest, number)
        else:
            self._least = self._greatest = number
        self._total += number
        self._count += 1

    def take(self) -> Summary | None:
        """Return the summary of the values since the last call; None where there were none."""
        if not self._count:
            return None
        taken = Summary(self._count, self._total, self._least, self._greatest)
        self._count = 0
        self._total = 0
        return taken


class Gauge(Metric):
    """A value that is read at the end of each epoch.

    Args:
        name: its name with those of its groups, for messages.
        value: gives it.
    """

    __slots__ = ("_name", "_value")

    def __init__(self, name: str, value: Callable[[], object]) -> None:
        self._name = name
        self._value = value

    def value(self) -> float:
        """Return its present value.

        Raises:
            InvalidTypeError: when it is no number.
        """
        try:
            given = self._value()
        except Exception as error:
            error.add_note(f"raised by the gauge {self._name!r}, which is read at the end of each epoch")
            raise
        number = as_number(given)
        if number is None:
            place = of_function(self._value)
            made_at = f"\n  at {place}" if place else ""
            raise InvalidTypeError(f"the gauge {self._name!r} has to give a number, not {shown(given)}{made_at}")
        return number


def _whole(n: object, method: str) -> int:
    if isinstance(n, Integral) and not isinstance(n, bool):
        return index(n)
    raise refused(f"{method} takes an integer, not {shown(n)}", InvalidTypeError)


def _number(value: object) -> float:
    number = as_number(value)
    if number is None:
        raise refused(f"Distribution.update: expected a number, got {shown(value)}", InvalidTypeError)
    return number


M = TypeVar("M", bound=Metric)


@dataclass(eq=False, slots=True)
class MetricRegistry:
    """The metrics of one operator in one subtask.

    Attributes:
        by_name: the metrics by the names of their groups and their own.
        groups: the groups of those that are in some, by the same names.
    """

    by_name: dict[str, Metric] = field(default_factory=dict)
    groups: dict[str, tuple[MetricGroupName, ...]] = field(default_factory=dict)
    _shown: dict[str, str] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    def registered(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        """The metric of a name, which is made on the first call.

        Raises:
            InvalidProgramError: when there is one of another kind, or one that would be shown under the same name.
        """
        known = self.by_name.get(name)
        if known is None:
            self._take_names(name, kind)
            known = self.by_name.setdefault(name, make())
        if not isinstance(known, kind):
            raise refused(f"there is {_described(known, name)} already: give the {kind.__name__} another name")
        return known

    def register_gauge(self, name: str, value: Callable[[], object]) -> None:
        """Register a value to be read, in place of an earlier one of this name.

        Raises:
            InvalidProgramError: as :meth:`registered`.
        """
        gauge = Gauge(name, value)
        self.registered(name, Gauge, lambda: gauge)
        self.by_name[name] = gauge

    def take(self) -> Measurements:
        """Return the changes since the last call, and the present values of gauges."""
        metrics = list(self.by_name.items())  # requests that were given up may still make some, in another thread
        new = {name for name, _ in metrics} - self._reported
        self._reported |= new
        return Measurements(
            counters={n: count for n, each in _of(Counter, metrics) if (count := each.take()) or n in new},
            meters={
                n: (count, each.time_span_in_seconds)
                for n, each in _of(Meter, metrics)
                if (count := each.take()) or n in new
            },
            gauges={n: gauge.value() for n, gauge in _of(Gauge, metrics)},
            distributions={n: summary for n, each in _of(Distribution, metrics) if (summary := each.take())},
            groups={name: self.groups[name] for name, _ in metrics if name in new and name in self.groups},
        )

    def _take_names(self, name: str, kind: type[Metric]) -> None:
        """Note under which names a metric is shown; with two under one name, one of both would show something else."""
        wanted = _shown_names(name, kind)
        if (other := next((self._shown[each] for each in wanted if each in self._shown), None)) is not None:
            raise refused(
                f"the {kind.__name__} {name!r} would be shown under the same name as "
                f"{_described(self.by_name[other], other)}: give one of them another name"
            )
        self._shown.update(dict.fromkeys(wanted, name))


_BEHIND_NAMES: Final[Mapping[type[Metric], tuple[str, ...]]] = {
    Counter: ("",),
    Meter: ("", EVENTS),
    Distribution: OF_DISTRIBUTIONS,
    Gauge: ("",),
}

_A_NUMBER: Final = re.compile(r"\A\d+(?=\.)")


def _shown_names(name: str, kind: type[Metric]) -> list[str]:
    """The names under which a metric is shown, behind the name of its operator.

    Gauges have the number of their subtask before them, and the group of another metric may look like one: ``#`` stands
    for both.
    """
    shown_name = f"#.{name}" if kind is Gauge else _A_NUMBER.sub("#", name)
    return [f"{shown_name}{what}" for what in _BEHIND_NAMES[kind]]


def _of(kind: type[M], metrics: list[tuple[str, Metric]]) -> Iterator[tuple[str, M]]:
    return ((name, metric) for name, metric in metrics if isinstance(metric, kind))


def _described(metric: Metric, name: str) -> str:
    return f"{with_article(type(metric))} {name!r}"


RECORDS_IN: Final = "numRecordsIn"
"""Records that went into an operator; of a source, that it has read."""

RECORDS_IN_ERRORS: Final = "numRecordsInErrors"
"""Messages that no record could be made of."""

SEND_ERRORS: Final = "numRecordsSendErrors"
"""Records that no message could be made of."""

LATE_DROPPED: Final = "numLateRecordsDropped"
"""Records that came too late and went to no side output."""

RULES_REJECTED: Final = "numRulesRejected"
"""Records of a stream of rules that changed nothing, and went to no side output."""

ROWS_DROPPED: Final = "numRowsOfChangedWindowsDropped"
"""Rows of windows that are now declared differently, which were dropped."""

ROWS_MOVED: Final = "numRowsOfChangedWindowsMoved"
"""The same, where it has gone to the windows that there are now."""

FILES_MISSING: Final = "numFilesMissing"
"""Files that were gone when they were to be read."""

FILES_CORRUPT: Final = "numFilesCorrupt"
"""Files that could not be read to their end."""

LOOKUP_CACHE_HITS: Final = "numLookupCacheHits"
"""Records whose key was found in the cache."""

LOOKUP_MISSES: Final = "numLookupMisses"
"""Records whose key nothing was found for."""

VIOLATIONS: Final = "numViolations"
"""Records that violate an expectation."""

ASYNC_TIMEOUTS: Final = "numAsyncTimeouts"
"""Requests that had no result in time."""

ASYNC_RETRIES: Final = "numAsyncRetries"
"""Attempts that were not the first."""

INPUT_WATERMARK: Final = "currentInputWatermark"
"""The watermark of the slowest subtask, in milliseconds."""

OUTPUT_WATERMARK: Final = "currentOutputWatermark"
"""The watermark that it has emitted."""

WATERMARK_LAG: Final = "watermarkLag"
"""The lag of that behind the clock of the job, in milliseconds."""

ALIGNMENT_DRIFT: Final = "watermarkAlignmentDrift"
"""The lead of the fastest split over the slowest one of its group, in milliseconds."""

SPLIT_WATERMARK: Final = "currentWatermark"
"""The watermark of a split, in milliseconds."""

RECORDS_OUT: Final = "numRecordsOut"
"""Records that an operator has emitted."""

BYTES_IN: Final = "numBytesIn"
"""Bytes of records that came to it from other tasks."""

BYTES_OUT: Final = "numBytesOut"
"""Bytes of records that went from it to other tasks."""

RECORDS_IN_RATE: Final = "numRecordsInPerSecond"
"""Of counters their growth in a second, over the last minute."""

RECORDS_OUT_RATE: Final = "numRecordsOutPerSecond"
BYTES_IN_RATE: Final = "numBytesInPerSecond"
BYTES_OUT_RATE: Final = "numBytesOutPerSecond"

BUSY_TIME: Final = "accumulateBusyTimeMs"
"""Milliseconds in which an operator was at work, since the run began."""

IDLE_TIME: Final = "accumulateIdleTimeMs"
"""Milliseconds in which it had nothing to do."""

BACK_PRESSURED_TIME: Final = "accumulateBackPressuredTimeMs"
"""Milliseconds in which it had more to do, and waited for those behind it."""

BUSY_RATE: Final = "busyTimeMsPerSecond"
"""The busy time in a second, over the last minute."""

IDLE_RATE: Final = "idleTimeMsPerSecond"
BACK_PRESSURED_RATE: Final = "backPressuredTimeMsPerSecond"

OWN_NAMES: Final = frozenset(
    {
        RECORDS_IN,
        RECORDS_OUT,
        BYTES_IN,
        BYTES_OUT,
        RECORDS_IN_RATE,
        RECORDS_OUT_RATE,
        BYTES_IN_RATE,
        BYTES_OUT_RATE,
        BUSY_TIME,
        IDLE_TIME,
        BACK_PRESSURED_TIME,
        BUSY_RATE,
        IDLE_RATE,
        BACK_PRESSURED_RATE,
        RECORDS_IN_ERRORS,
        SEND_ERRORS,
        LATE_DROPPED,
        RULES_REJECTED,
        ROWS_DROPPED,
        ROWS_MOVED,
        FILES_MISSING,
        FILES_CORRUPT,
        LOOKUP_CACHE_HITS,
        LOOKUP_MISSES,
        VIOLATIONS,
        ASYNC_TIMEOUTS,
        ASYNC_RETRIES,
        INPUT_WATERMARK,
        OUTPUT_WATERMARK,
        WATERMARK_LAG,
        ALIGNMENT_DRIFT,
    }
)
"""All of them."""
