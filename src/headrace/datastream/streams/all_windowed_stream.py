"""``AllWindowedStream``: the records of a whole stream in windows, whatever their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role
from headrace.common.signatures import warn_without_results
from headrace.common.type_variables import T_co
from headrace.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from headrace.datastream.streams.adapters import AllApply, AllProcess
from headrace.datastream.streams.checks import check_function, check_object
from headrace.datastream.streams.types import result_type
from headrace.datastream.streams.window_settings import WindowsOfStream
from headrace.datastream.streams.windowed_stream import WindowedStream, by_position
from headrace.operators.aggregates.aggregate import Aggregate

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.windowing.assigner import WindowAssigner


class AllWindowedStream(WindowsOfStream[T_co, int], Generic[T_co]):
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

    def __init__(self, keyed_stream: KeyedStream[T_co, int], window_assigner: WindowAssigner[Any, Any]) -> None:
        self._windowed = WindowedStream(keyed_stream, window_assigner)
        super().__init__(keyed_stream, self._windowed._settings)

    def _facts(self) -> dict[str, object]:
        return {"records": self.get_input_type(), "windows": self._settings.assigner}

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Combines the records of a window, as they come, into one of the same type.

        Args:
            reduce_function: a ``ReduceFunction`` or a function of two records.
            window_function: an ``AllWindowFunction`` or ``ProcessAllWindowFunction`` that is given the combined record.
            output_type: the type of the results; taken from the annotations of ``window_function`` when left out.
        """
        if window_function is None:
            return self._alone(self._windowed.reduce(reduce_function, output_type=output_type))
        function, found = _over_windows(window_function, output_type)
        return self._alone(self._windowed.reduce(reduce_function, function, found))

    def aggregate(
        self,
        aggregate_function: Any,
        *more: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
    ) -> DataStream[Any]:
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
        named = {
            "window_function": window_function,
            "accumulator_type": accumulator_type,
            "output_type": output_type,
        }
        if isinstance(aggregate_function, Aggregate):
            aggregates = (aggregate_function, *more)
            return self._alone(self._windowed._aggregate_columns(aggregates, named, has_key=False))
        named = by_position(more, named)
        function = named["window_function"]
        if function is not None:
            named["window_function"], named["output_type"] = _over_windows(function, named["output_type"])
        return self._alone(self._windowed.aggregate(aggregate_function, **named))

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a function to the records of each window, all of which are kept until it fires.

        Args:
            window_function: an ``AllWindowFunction``, or a function of window and records.
            output_type: the type of the results; taken from annotations when left out.
        """
        otherwise = " (process takes a ProcessAllWindowFunction)"
        check_function(window_function, AllWindowFunction, "apply", otherwise=otherwise)
        warn_without_results(window_function, "apply")
        found = result_type(output_type, window_function, Role.MANY)
        return self._alone(self._windowed.apply(AllApply(window_function), found))

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a ``ProcessAllWindowFunction`` to the records of each window, all of which are kept until it fires.

        Args:
            process_window_function: the function.
            output_type: the type of the results; taken from annotations when left out.
        """
        instead = "apply(...) takes an AllWindowFunction, or a function of window and records"
        check_object(process_window_function, ProcessAllWindowFunction, "process", instead=instead)
        warn_without_results(process_window_function, "process")
        found = result_type(output_type, process_window_function, Role.MANY)
        return self._alone(self._windowed.process(AllProcess(process_window_function), found))

    @staticmethod
    def _alone(results: DataStream[Any]) -> DataStream[Any]:
        return results.set_parallelism(1)


def _over_windows(function: Any, output_type: Any) -> tuple[AllApply | AllProcess, TypeInformation]:
    """A function over windows of all records as one over windows of a key, and the type of its results."""
    if not isinstance(function, AllWindowFunction | ProcessAllWindowFunction):
        text = f"window_function is an AllWindowFunction or a ProcessAllWindowFunction, not {function!r}"
        raise refused(text, InvalidTypeError)
    is_apply = isinstance(function, AllWindowFunction)
    method = "apply" if is_apply else "process"
    check_object(function, AllWindowFunction if is_apply else ProcessAllWindowFunction, method)
    warn_without_results(function, method)
    adapted = AllApply(function) if is_apply else AllProcess(function)
    return adapted, result_type(output_type, function, Role.MANY)
