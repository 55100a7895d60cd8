"""``WindowedStream``: the records of each key in windows."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, overload

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role
from headrace.common.signatures import check_returns, warn_without_results
from headrace.common.type_variables import ACC, OUT, K_co, T, T_co, W_co
from headrace.datastream.functions import AggregateFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from headrace.datastream.streams.checks import check_function, check_object
from headrace.datastream.streams.types import TypeOrigin, declared_type, origin_of, result_type
from headrace.datastream.streams.window_settings import WindowSettings, WindowsOfStream
from headrace.expressions import Expression
from headrace.graph.window_specs import AggregatedWindowSpec, RowWindowSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.windowing.assigners.count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.definition import WindowFunctions
from headrace.windowing.triggers.count import CountTrigger
from headrace.windowing.triggers.purging import PurgingTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.function_protocols import SupportsAggregate, SupportsReduce
    from headrace.common.row import Row
    from headrace.common.typeinfo import DeclaredType, TypeInformation
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.datastream.streams.process_protocols import SupportsApply, SupportsProcessWindow
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.trigger import Trigger
    from headrace.windowing.windows import CountWindow

_BUILT_IN: Final = 'use aggregate(count(), sum("x").alias("total")), with one built-in aggregate for each column'

_CALLS: Final = {
    **{name: f'{name}("{{field}}")' for name in ("sum", "min", "max", "avg", "first", "last")},
    **dict.fromkeys(("count", "size", "len"), "count()"),
    "mean": 'avg("{field}")',
    "std": 'stddev_samp("{field}")',
    "var": 'var_samp("{field}")',
    "nunique": 'count_distinct("{field}")',
}
"""The words of ``agg`` in pandas and PySpark for built-in aggregates."""


class WindowedStream(WindowsOfStream[T_co, K_co], Generic[T_co, K_co, W_co]):
    """A keyed stream after ``window``; says what to do with late records, then what to compute.

    As in PyFlink, the settings change the stream that they are called on, and return it.

    Args:
        keyed_stream: the keyed stream.
        window_assigner: puts records into windows.

    Examples:
        >>> from headrace.common import Time, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda reading, _: reading[0])
        >>> readings = env.from_collection([(1_000, "a", 3), (2_000, "a", 5), (61_000, "a", 4)])
        >>> windows = (
        ...     readings.assign_timestamps_and_watermarks(times)
        ...     .key_by(lambda reading: reading[1])
        ...     .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        ... )
        >>> windows.reduce(lambda a, b: max(a, b, key=lambda reading: reading[2])).execute_and_collect(limit=10)
        [(2000, 'a', 5), (61000, 'a', 4)]
    """

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], window_assigner: WindowAssigner[Any, W_co]) -> None:
        super().__init__(keyed_stream, WindowSettings(window_assigner))

    @overload
    def reduce(
        self, reduce_function: Callable[[T_co, T_co], T_co] | SupportsReduce[T_co], window_function: None = None
    ) -> DataStream[T_co]: ...
    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | SupportsReduce[T_co],
        window_function: SupportsApply[T_co, OUT, K_co, W_co] | SupportsProcessWindow[T_co, OUT, K_co, W_co],
        output_type: None = None,
    ) -> DataStream[OUT]: ...
    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | SupportsReduce[T_co],
        window_function: SupportsApply[T_co, Any, K_co, W_co]
        | SupportsProcessWindow[T_co, Any, K_co, W_co]
        | None = None,
        *,
        output_type: DeclaredType[OUT],
    ) -> DataStream[OUT]: ...
    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | SupportsReduce[T_co],
        window_function: SupportsApply[T_co, Any, K_co, W_co] | SupportsProcessWindow[T_co, Any, K_co, W_co] | None,
        output_type: DeclaredType[OUT],
    ) -> DataStream[OUT]: ...
    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Combines the records of a window, as they come, into one of the same type.

        Args:
            reduce_function: a ``ReduceFunction`` or a function of two records.
            window_function: is given the combined record when the window fires, if there is one.
            output_type: the type of the results; taken from the annotations of ``window_function`` when left out.
        """
        check_function(reduce_function, ReduceFunction, "reduce")
        check_returns(reduce_function, "reduce")
        keyed = self._keyed_stream._for_any_result()
        origin: TypeOrigin | None = origin_of(output_type)
        if window_function is not None:
            found = self._type_of_window_function(window_function, output_type)
        elif output_type is not None:
            found = declared_type(output_type)
        else:
            found, origin = keyed.get_type(), None
        functions = WindowFunctions(reduce_function=reduce_function, window_function=window_function)
        spec = RowWindowSpec(self._definition_for(found), found, functions)
        return keyed._apply(spec, "Window", origin=origin)

    @overload
    def aggregate(self, aggregate_function: Aggregate, *more: Aggregate) -> DataStream[Row]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: SupportsAggregate[T_co, ACC, OUT],
        window_function: None = None,
        accumulator_type: DeclaredType[ACC] | None = None,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: SupportsAggregate[T_co, ACC, T],
        window_function: SupportsApply[T, OUT, K_co, W_co] | SupportsProcessWindow[T, OUT, K_co, W_co],
        accumulator_type: DeclaredType[ACC] | None = None,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]: ...
    def aggregate(
        self,
        aggregate_function: Any,
        *more: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Folds the records of a window, as they come.

        Either with built-in aggregates, column by column::

            windows.aggregate(count(), sum("amount").alias("total"))

        which gives rows of the key, ``window_start``, ``window_end`` (milliseconds) and the aggregates; windows of a
        count have their number ``window_id`` instead, global windows nothing. Or with an ``AggregateFunction`` and the
        other arguments, by position as in PyFlink or by name.

        Args:
            aggregate_function: the first, or only, aggregate.
            more: more built-in aggregates; or ``window_function``, ``accumulator_type`` and ``output_type``.
            window_function: is given the result when the window fires, if there is one.
            accumulator_type: the type of the accumulators; pickled objects when left out.
            output_type: the type of the results; taken from annotations when left out.

        Raises:
            InvalidTypeError: when a built-in aggregate does not fit the records.
            InvalidProgramError: when the arguments do not go together.
        """
        named = {
            "window_function": window_function,
            "accumulator_type": accumulator_type,
            "output_type": output_type,
        }
        if isinstance(aggregate_function, Aggregate):
            return self._aggregate_columns((aggregate_function, *more), named)
        if isinstance(aggregate_function, Expression):
            text = f"aggregate takes aggregates of expressions, such as sum({aggregate_function!r}).alias('total')"
            raise refused(f"{text}, not {aggregate_function!r}", InvalidTypeError)
        if (call := built_in_call(aggregate_function)) is not None:
            text = f"aggregate takes aggregates of headrace.datastream.aggregates, not {aggregate_function!r}: {call}"
            raise refused(text, InvalidTypeError)
        check_object(aggregate_function, AggregateFunction, "get_result")
        for method in ("add", "get_result"):
            check_returns(aggregate_function, method)
        return self._aggregate_rows(aggregate_function, **by_position(more, named))

    @overload
    def apply(
        self,
        window_function: SupportsApply[T_co, OUT, K_co, W_co]
        | Callable[[K_co, W_co, Iterable[T_co]], Iterable[OUT] | None],
        output_type: None = None,
    ) -> DataStream[OUT]: ...
    @overload
    def apply(
        self,
        window_function: SupportsApply[T_co, Any, K_co, W_co]
        | Callable[[K_co, W_co, Iterable[T_co]], Iterable[Any] | None],
        output_type: DeclaredType[OUT],
    ) -> DataStream[OUT]: ...
    def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a function to the records of each window, all of which are kept until it fires.

        Args:
            window_function: a ``WindowFunction``, or a function of key, window and records.
            output_type: the type of the results; taken from annotations when left out.
        """
        otherwise = " (process takes a ProcessWindowFunction)"
        check_function(window_function, WindowFunction, "apply", otherwise=otherwise)
        warn_without_results(window_function, "apply")
        return self._keyed_stream._transform(self._applied, "Window", window_function, output_type)

    @overload
    def process(
        self, process_window_function: SupportsProcessWindow[T_co, OUT, K_co, W_co], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, process_window_function: SupportsProcessWindow[T_co, Any, K_co, W_co], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a ``ProcessWindowFunction`` to the records of each window, all of which are kept until it fires.

        Args:
            process_window_function: the function.
            output_type: the type of the results; taken from annotations when left out.
        """
        instead = "apply(...) takes a WindowFunction, or a function of key, window and records"
        check_object(process_window_function, ProcessWindowFunction, "process", instead=instead)
        warn_without_results(process_window_function, "process")
        return self._keyed_stream._transform(self._applied, "Window", process_window_function, output_type)

    def _aggregate_columns(
        self, aggregates: tuple[Any, ...], named: dict[str, Any], *, has_key: bool = True
    ) -> DataStream:
        surplus = [name for name, value in named.items() if value is not None]
        if surplus:
            raise refused(f"built-in aggregates take no {surplus[0]}: map() the rows that they give")
        for aggregate in aggregates:
            if not isinstance(aggregate, Aggregate):
                text = f"built-in aggregates go with others such as count(), sum('field'), not {aggregate!r}"
                call = built_in_call(aggregate)
                raise refused(f"{text}: {call}" if call else f"{text}; map() the rows that they give")
        spec = AggregatedWindowSpec(self._definition(), aggregates, has_key)
        return self._keyed_stream._apply(spec, "Window", origin=TypeOrigin.DECLARED)

    def _aggregate_rows(
        self, function: AggregateFunction, window_function: Any, accumulator_type: Any, output_type: Any
    ) -> DataStream:
        if window_function is None:
            found = result_type(output_type, function.get_result)
        else:
            found = self._type_of_window_function(window_function, output_type)
        accumulators = None if accumulator_type is None else declared_type(accumulator_type)
        functions = WindowFunctions(
            aggregate_function=function, window_function=window_function, accumulator_type=accumulators
        )
        spec = RowWindowSpec(self._definition_for(found), found, functions)
        return self._keyed_stream._apply(spec, "Window", origin=origin_of(output_type))

    def _type_of_window_function(self, window_function: Any, output_type: Any) -> TypeInformation:
        if not isinstance(window_function, WindowFunction | ProcessWindowFunction):
            text = f"window_function is a WindowFunction or a ProcessWindowFunction, not {window_function!r}"
            raise refused(text, InvalidTypeError)
        is_apply = isinstance(window_function, WindowFunction)
        method = "apply" if is_apply else "process"
        check_object(window_function, WindowFunction if is_apply else ProcessWindowFunction, method)
        warn_without_results(window_function, method)
        return result_type(output_type, window_function, Role.MANY)

    def _applied(self, window_function: Any, found: TypeInformation) -> RowWindowSpec:
        return RowWindowSpec(self._definition_for(found), found, WindowFunctions(window_function=window_function))


def full_windows(size: int, slide: int) -> tuple[WindowAssigner[Any, CountWindow], Trigger[Any, CountWindow]]:
    """Windows of ``size`` records that fire when they are full; one begins every ``slide`` records, or ``size``."""
    assigner = CountSlidingWindowAssigner.of(size, slide) if slide else CountTumblingWindowAssigner.of(size)
    # A window that is full gets no more records, so what it holds may go.
    return assigner, PurgingTrigger.of(CountTrigger.of(size))


def by_position(values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, some of which were given by position.

    Raises:
        InvalidProgramError: when there are too many, or one is given twice.
    """
    if len(values) > len(named):
        raise refused(f"aggregate takes {', '.join(named)} after an AggregateFunction, but got {len(values)} arguments")
    merged = dict(named)
    for name, value in zip(named, values, strict=False):
        if named[name] is not None:
            raise refused(f"aggregate got {name} twice, by position and by name")
        merged[name] = value
    return merged


def built_in_call(asked: Any) -> str | None:
    """What to write instead of ``"sum"``, ``{"amount": "sum"}``, Python's own ``sum``, or ``count`` that is not called.

    It begins in lower case.

    Args:
        asked: what an aggregate was asked for with.

    Returns:
        None for what is nothing of the kind.
    """
    is_uncalled = isinstance(asked, FunctionType) and asked.__module__.startswith("headrace.operators.aggregates.")
    if is_uncalled or any(asked is function for function in (sum, min, max, len)):
        asked = asked.__name__
    if not isinstance(asked, str | Mapping | list | tuple):
        return None
    fields = asked if isinstance(asked, Mapping) else {"field": asked}
    pairs = [
        (field, name)
        for field, names in fields.items()
        for name in (names if isinstance(names, list | tuple) else [names])
    ]
    if not pairs or not all(isinstance(name, str) and name in _CALLS for _, name in pairs):
        return _BUILT_IN
    return f"use aggregate({', '.join(_CALLS[name].format(field=field) for field, name in pairs)})"
