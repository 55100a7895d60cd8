"""The kinds of metrics: what functions tell about their work. Groups of metrics make them.

A function counts in its own process. What has come together in an epoch travels to the driver with the report of the
task, so it counts once, however often the task was run.
"""

from __future__ import annotations

from numbers import Integral
from operator import index
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import refused, shown
from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError
from headrace.metrics.measurements import Summary, as_number, greater, lesser

if TYPE_CHECKING:
    from collections.abc import Callable


class Metric:
    """What a function tells about its work. Groups of metrics make them.

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
        """What this instance of the function has counted, since it was opened."""
        return self._count

    def take(self) -> int:
        """What has come since the last call."""
        count = self._count
        new, self._taken = count - self._taken, count
        return new


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
        self._events.inc(value if type(value) is int else _whole(value, "mark_event"))

    def get_count(self) -> int:
        """How many events this instance of the function has told of, since it was opened."""
        return self._events.get_count()

    def take(self) -> int:
        """What has come since the last call."""
        return self._events.take()


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
        """That of the values since the last call; None where there were none."""
        if not self._count:
            return None
        taken = Summary(self._count, self._total, self._least, self._greatest)
        self._count = 0
        self._total = 0
        return taken


class Gauge(Metric):
    """A value that is asked for at the end of each epoch.

    Args:
        name: its name with those of its groups, for messages.
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
        try:
            given = self._value()
        except Exception as error:
            error.add_note(f"raised by the gauge {self._name!r}, which is asked at the end of each epoch")
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
