"""``OperatorTransformation``: where the state of an operator in a savepoint may come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import methodcaller
from typing import Any

from headrace.common import Duration, Time
from headrace.common.errors import expect, refused
from headrace.common.typeinfo import DeclaredType
from headrace.state_processor.bootstrap import (
    BootstrapTransformation,
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    Records,
    StateBootstrapFunction,
    in_common,
    keyed,
    windowed,
    without_keys,
)
from headrace.state_processor.state_tables import StateTables, is_spark_dataframe, is_table
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import ContinuousProcessingTimeTrigger
from headrace.windowing.windows import TimeWindowSerializer


@dataclass(frozen=True, slots=True)
class WindowedOperatorTransformation:
    """Records by key and window.

    What is said of the windows has to be what the program says, whose job goes on with them. They stay open, however
    late it is in event time: what is due fires in that job, at its first watermark. Java's class of this name is the
    model; methods return another transformation.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Time, Types
        >>> from headrace.datastream.aggregates import count, sum
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> orders = OperatorTransformation.bootstrap_with([("ann", 3, 1_000), ("bob", 4, 2_000), ("ann", 5, 61_000)])
        >>> keyed = orders.assign_timestamps(lambda order, _: order[2]).key_by(lambda order: order[0], Types.STRING())
        >>> minutes = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))
        >>> totals = minutes.aggregate(count(), sum(1).alias("total"))
        >>> path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(tempfile.mkdtemp() + "/first")
        >>> for row in SavepointReader.read(path).read_table("totals", "windows").to_pylist():
        ...     print(row["window_end"], row["key"], row["records"], row["sum(f1)"])
        60000 ann 1 3
        60000 bob 1 4
        120000 ann 1 5

    Attributes:
        records: the records.
        selector: gives the key of a record.
        key_type: the type of the keys.
        calls: what is said of the windows, in order; the first call makes them.
    """

    records: Records
    selector: Any
    key_type: DeclaredType[Any] | None
    calls: tuple[Callable[[Any], Any], ...]

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedOperatorTransformation:
        """Has another trigger say when windows fire; one that looks at elements may do so while they are filled.

        Raises:
            InvalidTypeError: when it is no trigger.
            InvalidProgramError: when it goes by the clock at intervals.
        """
        expect(trigger, Trigger, "trigger")
        if isinstance(trigger, ContinuousProcessingTimeTrigger):
            raise refused(
                f"{trigger} fires by the clock while windows are filled, and nobody would see it: a savepoint has no "
                "such windows"
            )
        return self._with("trigger", trigger)

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedOperatorTransformation:
        """Has an evictor remove elements when windows fire."""
        return self._with("evictor", evictor)

    def allowed_lateness(self, time_ms: int | Time | Duration | timedelta) -> WindowedOperatorTransformation:
        """Says how long windows are kept after their ends; a number is milliseconds."""
        return self._with("allowed_lateness", time_ms)

    def accumulation_mode(self, mode: AccumulationMode) -> WindowedOperatorTransformation:
        """Says what windows show when they fire again."""
        return self._with("accumulation_mode", mode)

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold what a ``ReduceFunction`` makes of their elements; as ``WindowedStream.reduce``."""
        return self._filled("reduce", reduce_function, window_function, output_type)

    def aggregate(self, aggregate_function: Any, *more: Any, **named: Any) -> BootstrapTransformation:
        """Windows that hold accumulators, of built-in aggregates or of an ``AggregateFunction``.

        Args:
            aggregate_function: as for ``WindowedStream.aggregate``.
            more: more built-in aggregates, or a window function.
            named: ``window_function``, ``accumulator_type`` and ``output_type``, as there.
        """
        return self._filled("aggregate", aggregate_function, *more, **named)

    def apply(self, window_function: Any, output_type: DeclaredType[Any] | None = None) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``WindowFunction``; as ``WindowedStream.apply``."""
        return self._filled("apply", window_function, output_type)

    def process(
        self, process_window_function: Any, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``ProcessWindowFunction``; as ``WindowedStream.process``."""
        return self._filled("process", process_window_function, output_type)

    def _with(self, method: str, *arguments: Any) -> WindowedOperatorTransformation:
        return replace(self, calls=(*self.calls, methodcaller(method, *arguments)))

    def _filled(self, method: str, *arguments: Any, **named: Any) -> BootstrapTransformation:
        calls: tuple[Callable[[Any], Any], ...] = (*self.calls, methodcaller(method, *arguments, **named))

        def build(stream: Any) -> Any:
            filled: Any = stream.key_by(self.selector, self.key_type)
            for call in calls:
                filled = call(filled)
            return filled

        return windowed(self.records, build)


class OperatorTransformation:
    """Begins the description of an operator's state, for :meth:`SavepointWriter.with_operator`.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = ListStateDescriptor("words", Types.STRING())
        >>> tables = OperatorTransformation.from_tables(Types.LONG())
        >>> tables = tables.with_state(words, [{"key": 1, "value": "tea"}, {"key": 1, "value": "cake"}])
    """

    @staticmethod
    def from_tables(key_type: DeclaredType[Any] | None = None) -> StateTables:
        """State from tables, each with the rows of one state.

        Args:
            key_type: the type of keys that the program gives to ``key_by``, or that follows from the field there; any
                object when left out.
        """
        return StateTables(key_type)

    @staticmethod
    def bootstrap_with(data: Any, type_info: DeclaredType[Any] | None = None) -> OneInputTransformation:
        """State that a function makes out of records.

        A job of its own makes it when the savepoint is written: on Spark where ``data`` is one of its DataFrames,
        else in this process, unless :meth:`SavepointWriter.with_configuration` says ``headrace.runtime``.

        Args:
            data: a table of Arrow, pandas, Polars, DuckDB or Spark, whose records are rows with a field for each
                column; or elements.
            type_info: the type of the records; found out when left out. Not for a DataFrame of Spark.

        Raises:
            InvalidTypeError: when there is nothing to go through.
            InvalidProgramError: for a type of what Spark has types for.
        """
        if is_spark_dataframe(data):
            if type_info is not None:
                raise refused(
                    "the records of a DataFrame of Spark are rows of what its columns are: leave out type_info, and "
                    "give columns other names and types in Spark (select, cast)"
                )
        elif not is_table(data):
            expect(data, Iterable, "bootstrap_with")
            data = list(data)  # an iterator would have nothing left where state is written twice
        return OneInputTransformation(Records(data, type_info))


class OneInputTransformation:
    """Records that state is made of.

    Args:
        records: the records.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> words = OperatorTransformation.bootstrap_with([("tea", 1), ("cake", 2)])
        >>> timed = words.assign_timestamps(lambda word, _: word[1] * 1000)
        >>> keyed = timed.key_by(lambda word: word[0], str)
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def assign_timestamps(self, assigner: Any) -> OneInputTransformation:
        """The same records with timestamps, which ``ctx.timestamp()`` gives; nothing makes event time rise.

        Args:
            assigner: as for ``WatermarkStrategy.with_timestamp_assigner``.
        """
        return OneInputTransformation(replace(self._records, assigner=assigner))

    def key_by(self, key_selector: Any, key_type: DeclaredType[Any] | None = None) -> KeyedOperatorTransformation:
        """Divides the records by keys.

        Args:
            key_selector: as for ``DataStream.key_by``.
            key_type: the type of the keys; it has to be that of the program.
        """
        return KeyedOperatorTransformation(self._records, key_selector, key_type)

    def transform(self, function: StateBootstrapFunction[Any]) -> BootstrapTransformation:
        """What a function makes of the records: lists of subtasks, or what all of them have in common.

        Args:
            function: a :class:`StateBootstrapFunction`, or a :class:`BroadcastStateBootstrapFunction`.

        Raises:
            InvalidTypeError: when it is something else.
        """
        expect(function, StateBootstrapFunction, "transform")
        if isinstance(function, BroadcastStateBootstrapFunction):
            return in_common(self._records, function)
        return without_keys(self._records, function)


class KeyedOperatorTransformation:
    """Records by keys.

    Args:
        records: the records.
        key_selector: gives the key of a record.
        key_type: the type of the keys.

    Examples:
        >>> from headrace.state_processor import OperatorTransformation
        >>> keyed = OperatorTransformation.bootstrap_with(["tea", "cake"]).key_by(len, int)
    """

    def __init__(self, records: Records, key_selector: Any, key_type: DeclaredType[Any] | None) -> None:
        self._records = records
        self._selector = key_selector
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedOperatorTransformation:
        """Puts the records into windows of event time, or without end; they need timestamps for the former.

        Raises:
            InvalidTypeError: when it is no window assigner.
            InvalidProgramError: when its windows are of the clock.
        """
        expect(window_assigner, WindowAssigner, "window")
        is_of_time = isinstance(window_assigner.get_window_serializer(), TimeWindowSerializer)
        if is_of_time and not window_assigner.is_event_time():
            raise refused(
                f"{window_assigner} are windows of the clock, which hold what comes while they are open: a savepoint "
                "has none"
            )
        return self._windows("window", window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedOperatorTransformation:
        """Cuts the records of each key into windows of ``size`` records; those that are not full are kept."""
        return self._windows("count_window", size, slide)

    def transform(self, function: KeyedStateBootstrapFunction[Any, Any]) -> BootstrapTransformation:
        """What a function makes of the records of each key: states and timers.

        Raises:
            InvalidTypeError: when it is something else.
            InvalidProgramError: when it has a method ``on_timer``, which is never called here.
        """
        expect(function, KeyedStateBootstrapFunction, "transform")
        return keyed(self._records, self._selector, self._key_type, function)

    def _windows(self, method: str, *arguments: Any) -> WindowedOperatorTransformation:
        call = methodcaller(method, *arguments)
        return WindowedOperatorTransformation(self._records, self._selector, self._key_type, (call,))
