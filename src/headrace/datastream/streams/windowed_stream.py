"""Streams cut into windows: ``WindowedStream`` by key, ``AllWindowedStream`` as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from headrace.common.arguments import check_returns, warn_without_results
from headrace.common.call_site import warn_caller
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidTypeError, expect, refused, with_article
from headrace.common.other_names import built_in_call
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import ACC, OUT, K_co, SupportsAggregate, SupportsReduce, T, T_co, W_co
from headrace.common.typeinfo import DeclaredType, RowTypeInfo, TypeInformation
from headrace.common.types import Row
from headrace.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from headrace.datastream.streams.adapters import AllProcess, KeylessWindowCall, window_and_records
from headrace.datastream.streams.checks import check_function, check_object
from headrace.datastream.streams.types import (
    Role,
    SupportsApply,
    SupportsProcessWindow,
    TypeOrigin,
    declared_type,
    origin_of,
    result_type,
)
from headrace.expressions import Expression
from headrace.graph.specs import OperatorSpec
from headrace.graph.window_specs import AggregatedWindowSpec, RowWindowSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.windowing.assigners import MergingWindowAssigner, WindowAssigner
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.definition import AccumulationMode, WindowDefinition, WindowFunctions
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import CountTrigger, NeverTrigger, PurgingTrigger
from headrace.windowing.windows import CountWindow

if TYPE_CHECKING:
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream


class WindowsOfStream(Generic[T_co, K_co]):
    """The root of streams that are cut into windows. Its settings change the stream, and return it, as in PyFlink.

    Args:
        keyed_stream: the keyed stream.
        window_assigner: puts its records into windows.
    """

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            offered = "TumblingEventTimeWindows.of(...) or another WindowAssigner"
            raise refused(f"window takes {offered}, not {window_assigner!r}", InvalidTypeError)
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None
        self._mode = AccumulationMode.ACCUMULATING

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation[T_co]:
        """The type of the records in the windows."""
        return self._keyed_stream.get_type()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_input_type()}, {self._assigner})"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the windows, and the graph up to here."""
        from headrace.datastream.notebook import stream_html

        stream = self._keyed_stream
        return stream_html(type(self).__name__, self._facts(), stream._transformations.graph, stream._operator_ids())

    def _facts(self) -> dict[str, object]:
        return {**self._keyed_stream._facts(), "windows": self._assigner}

    def trigger(self, trigger: Trigger) -> Self:
        """Says when windows fire, in the place of the assigner's own trigger.

        So a ``CountTrigger`` on windows of time fires at each count, and no longer at their end.

        Raises:
            InvalidTypeError: when it is no trigger.
            InvalidProgramError: when the windows merge and the trigger cannot.
        """
        expect(trigger, Trigger, "trigger")
        self._trigger = self._checked(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Removes records from a window when it fires, before or after its function is called; not in PyFlink.

        All records of the window are kept for it, also where they are reduced or aggregated.

        Raises:
            InvalidTypeError: when it is no evictor.
        """
        expect(evictor, Evictor, "evictor")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration | timedelta) -> Self:
        """Keeps windows for some time after the watermark has passed them; each late record fires its window again.

        Windows of the clock, of a count and global ones have no late records: there it has no effect, and warns.

        Args:
            time_ms: how long; a number is milliseconds.

        Raises:
            InvalidProgramError: when it is negative, or has no 64 bits.
        """
        lateness = to_millis(time_ms, "allowed_lateness")
        if lateness < 0:
            raise refused(f"the allowed lateness cannot be negative, it is {lateness} ms")
        if lateness > MAX_WATERMARK:
            raise refused(f"the allowed lateness is at most {MAX_WATERMARK} ms, for ever, not {lateness} ms")
        if lateness and not self._assigner.is_event_time():
            warn_caller(f"allowed_lateness has no effect: nothing is late in {self._assigner}")
        self._lateness = lateness
        return self

    def accumulation_mode(self, mode: AccumulationMode) -> Self:
        """Says what windows show when they fire again; all that they hold unless this is called. Not in Flink.

        Raises:
            InvalidTypeError: when it is no ``AccumulationMode``.
            InvalidProgramError: when it takes results back, and the windows are of so many records.
        """
        expect(mode, AccumulationMode, "accumulation_mode")
        assigner = self._assigner
        if mode.retracts and isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
            raise refused(f"{assigner} are shown once, when they are full: there is nothing to take back")
        self._mode = mode
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Sends records that are too late for all their windows to a side output; otherwise they are dropped.

        Their type is that of the records, so the tag need not say it.
        """
        expect(output_tag, OutputTag, "side_output_late_data")
        self._late_tag = output_tag
        return self

    def _checked(self, trigger: Trigger) -> Trigger:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise refused(
                f"{trigger} cannot be used with windows that merge ({self._assigner}): its can_merge() is False"
            )
        return trigger

    def _definition(self) -> WindowDefinition:
        trigger = self._trigger
        if trigger is None:
            trigger = self._assigner.get_default_trigger(self._keyed_stream._environment)
            if not isinstance(trigger, Trigger):
                name = type(self._assigner).__name__
                raise refused(f"{name}.get_default_trigger has to return a Trigger, not {trigger!r}", InvalidTypeError)
            self._checked(trigger)
            if isinstance(trigger, NeverTrigger):
                warn_caller(f"{self._assigner} show nothing by themselves: say when, with .trigger(...)")
        return WindowDefinition(self._assigner, trigger, self._evictor, self._lateness, self._late_tag, self._mode)

    def _definition_for(self, found: TypeInformation) -> WindowDefinition:
        """The windows, for functions of the user whose results are of the type ``found``.

        Raises:
            InvalidTypeError: when such results cannot be taken back, and the windows do that.
        """
        if self._mode.retracts and not isinstance(found, RowTypeInfo):
            raise refused(
                f"results that are taken back are rows, which alone have a kind, not {found}: give rows, and declare "
                "their type, Types.ROW(...) or Types.ROW_NAMED(...)",
                InvalidTypeError,
            )
        return self._definition()


def check_aggregates(aggregates: tuple[Any, ...]) -> None:
    """Refuse what is no built-in aggregate, beside others that are.

    Raises:
        InvalidProgramError: when one is something else.
    """
    for aggregate in aggregates:
        if not isinstance(aggregate, Aggregate):
            text = f"built-in aggregates go with others such as count(), sum('field'), not {aggregate!r}"
            call = built_in_call(aggregate)
            raise refused(f"{text}: {call}" if call else f"{text}; map() the rows that they give")


class WindowsOfOne(WindowsOfStream[T_co, K_co], Generic[T_co, K_co]):
    """The root of windows of one stream: by key, and of all records, which differ in the functions that they take."""

    _function_kinds: ClassVar[tuple[type[Function], type[Function]]]
    """The classes of functions that ``apply`` and ``process`` take."""

    _has_key: ClassVar[bool] = True

    def _over_windows(self, window_function: Any, output_type: Any) -> tuple[Any, TypeInformation]:
        """A function that is given what a window was folded to, and the type of its results."""
        applied, processed = self._function_kinds
        if not isinstance(window_function, applied | processed):
            kinds = f"{with_article(applied)} or {with_article(processed)}"
            raise refused(f"window_function is {kinds}, not {window_function!r}", InvalidTypeError)
        kind, method = (applied, "apply") if isinstance(window_function, applied) else (processed, "process")
        check_object(window_function, kind, method)
        warn_without_results(window_function, method)
        return self._by_key(window_function, method), result_type(output_type, window_function, Role.MANY)

    def _add(self, spec: OperatorSpec, origin: TypeOrigin | None, keyed: KeyedStream | None = None) -> DataStream:
        return (keyed or self._keyed_stream)._apply(spec, "Window", origin=origin)

    def _reduced(self, reduce_function: Any, window_function: Any, output_type: Any) -> DataStream:
        check_function(reduce_function, ReduceFunction, "reduce")
        check_returns(reduce_function, "reduce")
        keyed = self._keyed_stream._for_any_result()
        if window_function is not None:
            window_function, found = self._over_windows(window_function, output_type)
        else:
            found = keyed.get_type() if output_type is None else declared_type(output_type)
        is_same = window_function is None and output_type is None
        functions = WindowFunctions(reduce_function=reduce_function, window_function=window_function)
        spec = RowWindowSpec(self._definition_for(found), found, functions)
        return self._add(spec, None if is_same else origin_of(output_type), keyed)

    def _aggregated(
        self, function: Any, more: tuple[Any, ...], window_function: Any, accumulator_type: Any, output_type: Any
    ) -> DataStream:
        named = {
            "window_function": window_function,
            "accumulator_type": accumulator_type,
            "output_type": output_type,
        }
        if isinstance(function, Aggregate):
            return self._aggregate_columns((function, *more), named)
        if isinstance(function, Expression):
            text = f"aggregate takes aggregates of expressions, such as sum({function!r}).alias('total')"
            raise refused(f"{text}, not {function!r}", InvalidTypeError)
        if (call := built_in_call(function)) is not None:
            text = f"aggregate takes aggregates of headrace.datastream.aggregates, not {function!r}: {call}"
            raise refused(text, InvalidTypeError)
        check_object(function, AggregateFunction, "get_result")
        for method in ("add", "get_result"):
            check_returns(function, method)
        return self._aggregate_rows(function, **by_position(more, named))

    def _aggregate_columns(self, aggregates: tuple[Any, ...], named: dict[str, Any]) -> DataStream:
        for name, value in named.items():
            if value is not None:
                raise refused(f"built-in aggregates take no {name}: map() the rows that they give")
        check_aggregates(aggregates)
        spec = AggregatedWindowSpec(self._definition(), aggregates, self._has_key)
        return self._add(spec, TypeOrigin.DECLARED)

    def _aggregate_rows(
        self, function: AggregateFunction, window_function: Any, accumulator_type: Any, output_type: Any
    ) -> DataStream:
        if window_function is None:
            found = result_type(output_type, function.get_result)
        else:
            window_function, found = self._over_windows(window_function, output_type)
        accumulators = None if accumulator_type is None else declared_type(accumulator_type)
        functions = WindowFunctions(
            aggregate_function=function, window_function=window_function, accumulator_type=accumulators
        )
        spec = RowWindowSpec(self._definition_for(found), found, functions)
        return self._add(spec, origin_of(output_type))

    def _applied(self, window_function: object, output_type: Any) -> DataStream:
        kind, processed = self._function_kinds
        check_function(window_function, kind, "apply", otherwise=f" (process takes {with_article(processed)})")
        return self._over_records(window_function, "apply", output_type)

    def _processed(self, window_function: object, output_type: Any) -> DataStream:
        applied, kind = self._function_kinds
        parameters = "key, window and records" if self._has_key else "window and records"
        instead = f"apply(...) takes {with_article(applied)}, or a function of {parameters}"
        check_object(window_function, kind, "process", instead=instead)
        return self._over_records(window_function, "process", output_type)

    def _over_records(self, window_function: object, method: str, output_type: Any) -> DataStream:
        warn_without_results(window_function, method)
        found = result_type(output_type, window_function, Role.MANY)
        functions = WindowFunctions(window_function=self._by_key(window_function, method))
        return self._add(RowWindowSpec(self._definition_for(found), found, functions), origin_of(output_type))

    def _by_key(self, window_function: Any, method: str) -> Any:
        """The function as one that is called with a key as well."""
        return window_function


class WindowedStream(WindowsOfOne[T_co, K_co], Generic[T_co, K_co, W_co]):
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

    _function_kinds = (WindowFunction, ProcessWindowFunction)

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
    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """Combines the records of a window, as they come, into one of the same type.

        Args:
            reduce_function: a ``ReduceFunction`` or a function of two records.
            window_function: is given the combined record when the window fires, if there is one.
            output_type: the type of the results; taken from the annotations of ``window_function`` when left out.
        """
        return self._reduced(reduce_function, window_function, output_type)

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
    ) -> DataStream:
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
        return self._aggregated(aggregate_function, more, window_function, accumulator_type, output_type)

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
    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """Applies a function to the records of each window, all of which are kept until it fires.

        Args:
            window_function: a ``WindowFunction``, or a function of key, window and records.
            output_type: the type of the results; taken from annotations when left out.
        """
        return self._applied(window_function, output_type)

    @overload
    def process(
        self, process_window_function: SupportsProcessWindow[T_co, OUT, K_co, W_co], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, process_window_function: SupportsProcessWindow[T_co, Any, K_co, W_co], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """Applies a ``ProcessWindowFunction`` to the records of each window, all of which are kept until it fires.

        Args:
            process_window_function: the function.
            output_type: the type of the results; taken from annotations when left out.
        """
        return self._processed(process_window_function, output_type)


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


class AllWindowedStream(WindowsOfOne[T_co, int], Generic[T_co]):
    """A stream after ``window_all``. Its windows are those of one key, so one subtask works on all records.

    The settings change the stream that they are called on, and return it.

    Args:
        keyed_stream: the records under one key.
        window_assigner: puts records into windows.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
        >>> numbers = env.from_collection([1, 2, 12]).assign_timestamps_and_watermarks(times)
        >>> sums = numbers.window_all(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: a + b)
        >>> sums.execute_and_collect(limit=10)
        [3, 12]
    """

    _function_kinds = (AllWindowFunction, ProcessAllWindowFunction)
    _has_key = False

    def _facts(self) -> dict[str, object]:
        return {"records": self.get_input_type(), "windows": self._assigner}

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream:
        """Combines the records of a window, as they come, into one of the same type.

        Args:
            reduce_function: a ``ReduceFunction`` or a function of two records.
            window_function: an ``AllWindowFunction`` or ``ProcessAllWindowFunction`` that is given the combined record.
            output_type: the type of the results; taken from the annotations of ``window_function`` when left out.
        """
        return self._reduced(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: Any,
        *more: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream:
        """Folds the records of a window, as they come.

        Either with built-in aggregates, of which each subtask computes its share first where that is possible::

            windows.aggregate(count(), sum("amount").alias("total"))

        which gives rows of ``window_start``, ``window_end`` and the aggregates; or with an ``AggregateFunction`` and
        the other arguments, by position as in PyFlink or by name.

        Args:
            aggregate_function: the first, or only, aggregate.
            more: more built-in aggregates; or ``window_function``, ``accumulator_type`` and ``output_type``.
            window_function: an ``AllWindowFunction`` or ``ProcessAllWindowFunction`` that is given the result.
            accumulator_type: the type of the accumulators; pickled objects when left out.
            output_type: the type of the results; taken from annotations when left out.

        Raises:
            InvalidTypeError: when a built-in aggregate does not fit the records.
            InvalidProgramError: when the arguments do not go together.
        """
        return self._aggregated(aggregate_function, more, window_function, accumulator_type, output_type)

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream:
        """Applies a function to the records of each window, all of which are kept until it fires.

        Args:
            window_function: an ``AllWindowFunction``, or a function of window and records.
            output_type: the type of the results; taken from annotations when left out.
        """
        return self._applied(window_function, output_type)

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream:
        """Applies a ``ProcessAllWindowFunction`` to the records of each window, all of which are kept until it fires.

        Args:
            process_window_function: the function.
            output_type: the type of the results; taken from annotations when left out.
        """
        return self._processed(process_window_function, output_type)

    def _add(self, spec: OperatorSpec, origin: TypeOrigin | None, keyed: KeyedStream | None = None) -> DataStream:
        return super()._add(spec, origin, keyed).set_parallelism(1)

    def _by_key(self, window_function: Any, method: str) -> Any:
        if method == "process":
            return AllProcess(window_function)
        return KeylessWindowCall(window_function, method, window_and_records)
