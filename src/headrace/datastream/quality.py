"""The quality of data: what records are expected to be, and measures of the records of a window.

``stream.expect("amounts are positive", col("amount") > 0, violations="fail")`` looks at single records. What only many
records show is measured first: :func:`measure` gives a row of figures for each window, of which something is expected
in the same way::

    from headrace.datastream.quality import measure, null_share, volume_change

    figures = measure(payments, TumblingEventTimeWindows.of(Time.minutes(5)), null_share("user"), volume_change(6))
    figures.expect("users are known", col("null_share_user") <= 0.01, violations="hold")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.errors import expect, refused
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis
from headrace.common.typeinfo import RowTypeInfo, Types
from headrace.common.types import Row
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.window import TumblingProcessingTimeWindows
from headrace.expressions import Expression, col, when
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.aggregates.distinct import count_distinct
from headrace.operators.aggregates.simple import count, max, min
from headrace.operators.aggregates.sums import avg
from headrace.windowing.assigners import WindowAssigner

__all__ = [
    "Measure",
    "distinct_share",
    "freshness",
    "highest",
    "lowest",
    "mean",
    "measure",
    "null_share",
    "volume",
    "volume_change",
]

_RECORDS: Final = "records"
"""The column of the number of records of a window, which most measures need."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of the records of a window.

    Attributes:
        name: the name of its column.
        aggregates: the aggregates that it is computed from; their columns are not in the result.
        value: computes it from their columns.
        windows: the number of windows before that it is compared with; 0 for none.

    Examples:
        >>> from headrace.datastream.aggregates import max, min
        >>> from headrace.datastream.quality import Measure
        >>> from headrace.expressions import col
        >>> Measure("spread", (max("x").alias("most"), min("x").alias("least")), col("most") - col("least")).name
        'spread'
    """

    name: str
    aggregates: tuple[Aggregate, ...]
    value: Expression
    windows: int = 0


def null_share(field: str) -> Measure:
    """The share of records whose field is null, from 0 to 1: ``null_share_<field>``.

    Examples:
        >>> from headrace.datastream.quality import null_share
        >>> null_share("user").name
        'null_share_user'
    """
    valid = f"valid_{field}"
    share = (col(_RECORDS) - col(valid)) / col(_RECORDS)
    return Measure(f"null_share_{field}", (_records(), count(field).alias(valid)), share)


def distinct_share(field: str) -> Measure:
    """The share of different values among those of a field that are not null: ``distinct_share_<field>``.

    It is 1 where values are unique within the window, and null where there are none.

    Examples:
        >>> from headrace.datastream.quality import distinct_share
        >>> distinct_share("id").name
        'distinct_share_id'
    """
    valid, distinct = f"valid_{field}", f"distinct_{field}"
    share = when(col(valid) > 0).then(col(distinct) / col(valid)).otherwise(None)
    return Measure(f"distinct_share_{field}", (count(field).alias(valid), count_distinct(field).alias(distinct)), share)


def lowest(field: str) -> Measure:
    """The lowest value of a field: ``lowest_<field>``.

    Examples:
        >>> from headrace.datastream.quality import lowest
        >>> lowest("amount").name
        'lowest_amount'
    """
    return _of_one(f"lowest_{field}", min(field))


def highest(field: str) -> Measure:
    """The highest value of a field: ``highest_<field>``.

    Examples:
        >>> from headrace.datastream.quality import highest
        >>> highest("amount").name
        'highest_amount'
    """
    return _of_one(f"highest_{field}", max(field))


def mean(field: str) -> Measure:
    """The mean of the values of a field: ``mean_<field>``.

    Examples:
        >>> from headrace.datastream.quality import mean
        >>> mean("amount").name
        'mean_amount'
    """
    return _of_one(f"mean_{field}", avg(field))


def volume() -> Measure:
    """The number of records: ``volume``. A window without records has no figures; see :func:`freshness`.

    Examples:
        >>> from headrace.datastream.quality import volume
        >>> volume().name
        'volume'
    """
    return Measure("volume", (_records(),), col(_RECORDS))


def volume_change(last: int) -> Measure:
    """The number of records over its mean in the last windows: ``volume_change``.

    It is null in the first window, as there is nothing to compare with.

    Args:
        last: the number of windows before that have records.

    Raises:
        InvalidProgramError: when it is not positive.

    Examples:
        >>> from headrace.datastream.quality import volume_change
        >>> volume_change(last=5).windows
        5
    """
    expect(last, int, "volume_change")
    if last < 1:
        raise refused(f"volume_change compares with at least one window, not {last}")
    return Measure("volume_change", (_records(),), col(_RECORDS).cast(float), last)


def _records() -> Aggregate:
    return count().alias(_RECORDS)


def _of_one(name: str, aggregate: Aggregate) -> Measure:
    hidden = f"{name}_"
    return Measure(name, (aggregate.alias(hidden),), col(hidden))


def measure(stream: DataStream[Any], window: WindowAssigner[Any, Any], *measures: Measure) -> DataStream[Row]:
    """Measures the records of each window: rows of ``window_start``, ``window_end`` and a column for each measure.

    Args:
        stream: the records; the stream itself goes on unchanged.
        window: a time window; sliding ones give a figure more often.
        measures: what is measured.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind, or a measure does not fit the records.
        InvalidProgramError: when there are no measures, or two of the same name.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.quality import measure, null_share, volume
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     users = harness.add_source("users", Types.ROW_NAMED(["user"], [str]))
        ...     minutes = TumblingEventTimeWindows.of(60_000)
        ...     harness.add_sink("figures", measure(users, minutes, null_share("user"), volume()))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("users", [("ada",), (None,)], [1_000, 2_000])
        ...     harness.finish()
        ...     print(harness.results("figures"))
        [Row(window_start=0, window_end=60000, null_share_user=0.5, volume=2)]
    """
    expect(stream, DataStream, "measure")
    if not measures:
        raise refused("measure takes what is to be measured: measure(stream, window, null_share('user'))")
    for each in measures:
        expect(each, Measure, "measure")
    names = [each.name for each in measures]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise refused(f"measure: {twice!r} is measured twice")
    aggregates = {aggregate.name: aggregate for each in measures for aggregate in each.aggregates}
    figures = stream.window_all(window).aggregate(*aggregates.values())
    if "window_end" not in _fields(figures):
        raise refused(f"measure takes windows of time, which begin and end; {window} do not")
    chosen = [each.value.alias(each.name) for each in measures]
    selected = figures.select("window_start", "window_end", *chosen)
    for each in measures:
        if each.windows:
            selected = _compared(selected, each)
    return selected


def _fields(stream: DataStream[Any]) -> tuple[str, ...]:
    type_ = stream.get_type()
    return tuple(type_.field_names) if isinstance(type_, RowTypeInfo) else ()


def _compared(figures: DataStream[Row], measure: Measure) -> DataStream[Row]:
    """The figures with one of them over its mean in the windows before."""
    compare = _Compare(_fields(figures).index(measure.name), measure.windows)
    compared = figures.key_by(_same_key, key_type=Types.INT()).process(compare, figures.get_type())
    return compared.name(f"Compare({measure.name})")


def _same_key(_: Row) -> int:
    return 0


class _Compare(KeyedProcessFunction):
    """Divides a figure by its mean in the windows before.

    Args:
        field: the index of the figure.
        windows: the number of windows.
    """

    def __init__(self, field: int, windows: int) -> None:
        self._field = field
        self._windows = windows

    def open(self, runtime_context: RuntimeContext) -> None:
        self._before = runtime_context.get_list_state(ListStateDescriptor("before", Types.DOUBLE()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        before, figure = list(self._before.get() or ()), value[self._field]
        fields = list(value)
        fields[self._field] = figure * len(before) / sum(before) if before else None
        self._before.update([*before, figure][-self._windows :])
        yield Row(*fields)


def freshness(stream: DataStream[Any], every: Time | Duration) -> DataStream[Row]:
    """Reports how long no record has come: a row of ``time``, ``records`` and ``silent_for`` after each interval.

    The clock of the job counts, and the rows begin with the first record. Where records stop coming, the rows go on
    from the second interval without any::

        freshness(payments, Time.minutes(1)).expect("payments come", col("silent_for") < 300_000, violations="fail")

    Args:
        stream: the records; the stream itself goes on unchanged.
        every: the interval between two rows.

    Returns:
        Rows of the time in milliseconds, the number of records in the interval before it, and the milliseconds since
        the end of the last interval with records.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind.
        InvalidProgramError: when the interval is not positive.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.quality import freshness
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> freshness(env.from_collection([1]), Time.minutes(1))
        DataStream(RowTypeInfo(time: Long, records: Long, silent_for: Long))
    """
    expect(stream, DataStream, "freshness")
    interval = to_millis(every)
    if interval <= 0:
        raise refused(f"freshness: the interval between two rows has to be positive, not {interval} ms")
    arrived = stream.window_all(TumblingProcessingTimeWindows.of(interval)).aggregate(_records())
    fresh = arrived.key_by(_same_key, key_type=Types.INT()).process(_Freshness(interval), _FRESHNESS)
    return fresh.name("Freshness")


_FRESHNESS: Final = Types.ROW_NAMED(["time", "records", "silent_for"], [Types.LONG(), Types.LONG(), Types.LONG()])


class _Freshness(KeyedProcessFunction):
    """Gives a row at the end of each interval, with and without records.

    Args:
        interval: its length in milliseconds.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        is_first = self._last.value() is None
        self._last.update(value.window_end)
        if is_first:
            ctx.timer_service().register_processing_time_timer(value.window_end + self._interval)
        yield Row(value.window_end, value.records, 0)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Row]:
        ctx.timer_service().register_processing_time_timer(timestamp + self._interval)
        silent_for = timestamp - (self._last.value() or 0)
        if silent_for > self._interval:  # the window that ends now may fire in the same epoch, after this timer
            yield Row(timestamp, 0, silent_for)


public_module(__name__)
