"""``KeyedStream``: records that are together with all others of their key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.common.errors import InvalidTypeError, UnsupportedOperationError
from headrace.datastream.functions import KeyedProcessFunction, ReduceFunction
from headrace.datastream.method_tables import unsupported
from headrace.datastream.streams.adapters import ADAPTERS, is_opened
from headrace.datastream.streams.checks import check_function, check_object, is_untyped, refused
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.handle import not_an_operator
from headrace.datastream.streams.rolling import checked_field
from headrace.datastream.streams.type_origin import TypeOrigin
from headrace.datastream.streams.unsupported_methods import KEYED_STREAM
from headrace.graph import specs
from headrace.graph.nodes import Edge
from headrace.graph.partitioning import HASH
from headrace.time.windows import AlignedWindows, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.windowed_stream import WindowedStream
    from headrace.graph.nodes import KeySelection
    from headrace.graph.specs import OperatorSpec


@unsupported(KEYED_STREAM)
class KeyedStream(DataStream):
    """A stream after ``key_by``; what operators make of it is not keyed any more.

    ``map``, ``flat_map`` and ``filter`` may use keyed state, which their functions get in ``open``. It is no operator,
    so it has neither name nor uid nor parallelism.

    Args:
        environment: where the stream belongs.
        edges: where its records come from, with their partitioning.
        type_info: the type of its records.
        origin: the stream that was keyed.
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        edges: tuple[Edge, ...],
        type_info: TypeInformation,
        origin: DataStream,
    ) -> None:
        super().__init__(environment, edges, type_info, origin=origin._type_origin)
        self._origin = origin

    def get_key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self._key.codec.type

    def key_by(self, key_selector: Any, *more: Any, key_type: Any = None) -> KeyedStream:
        """The same records by another key."""
        return self._origin.key_by(key_selector, *more, key_type=key_type)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """Applies a ``KeyedProcessFunction``, with state and timers for each key.

        Args:
            func: the function; a ``ProcessFunction`` does as well.
            output_type: the type of what it yields; taken from its annotations when left out.
        """
        check_object(func, KeyedProcessFunction, "process_element")
        return self._transform(specs.KeyedProcessSpec(func), "KeyedProcess", func, output_type)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combines the records of a key, one after the other, into one of the same type.

        In streaming mode each record gives one result, the combination up to it; in batch mode each key gives one.
        """
        check_function(func, ReduceFunction, "reduce")
        keyed = self._for_any_result()
        return keyed._apply(specs.RollingReduceSpec(func), "Reduce", keyed._type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The records of a key so far as one: the first of them, with the sum in a field of numbers.

        Args:
            position_to_sum: name or position of the field; 0 for records that are plain numbers.

        Raises:
            InvalidTypeError: when there is no such field, or it does not hold numbers.
        """
        return self._roll("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The records of a key so far as one: the first of them, with the smallest value in a field."""
        return self._roll("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The records of a key so far as one: the first of them, with the largest value in a field."""
        return self._roll("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record of a key so far that has the smallest value in a field, the first among equals."""
        return self._roll("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record of a key so far that has the largest value in a field, the first among equals."""
        return self._roll("max_by", position_to_max_by)

    def window(self, window_assigner: WindowAssigner) -> WindowedStream:
        """Cuts the records of each key into windows: ``TumblingEventTimeWindows.of(Time.minutes(1))``, say.

        Raises:
            InvalidTypeError: when it is no window assigner.
            UnsupportedOperationError: when it is one of one's own.
        """
        from headrace.datastream.streams.windowed_stream import WindowedStream

        if isinstance(window_assigner, AlignedWindows):
            return WindowedStream(self, window_assigner)
        offered = "TumblingEventTimeWindows.of(...) or SlidingEventTimeWindows.of(...)"
        if isinstance(window_assigner, WindowAssigner):
            raise refused(
                f"{type(window_assigner).__name__} is not supported: use {offered}, or a KeyedProcessFunction",
                UnsupportedOperationError,
            )
        raise refused(f"window takes {offered}, not {window_assigner!r}", InvalidTypeError)

    # --- for the classes of this package -----------------------------------------------------------------------------

    @property
    def _key(self) -> KeySelection:
        key = self._edges[0].key
        assert key is not None, "the edges of a keyed stream say how they are keyed"
        return key

    def _for_any_result(self) -> KeyedStream:
        """This stream for a function whose results are of the same type, if the type is more than an observation."""
        if self._type_origin is not TypeOrigin.OBSERVED or is_untyped(self._type) or self._key.selector is None:
            return self
        plain = self._origin._untyped()
        key = replace(self._key, fields=None, is_single=True, expression=None)
        edges = tuple(Edge(edge.source, HASH, edge.side_output, key=key) for edge in plain._edges)
        return KeyedStream(self._environment, edges, plain._type, plain)

    def _roll(self, aggregation: str, position: int | str) -> DataStream:
        field = checked_field(self._type, aggregation, position)
        name = "".join(map(str.capitalize, aggregation.split("_")))
        return self._apply(specs.RollingAggregateSpec(aggregation, field), name, self._type)

    def _function_spec(self, kind: type[Any], function: Any) -> OperatorSpec:
        if is_opened(function):
            return specs.KeyedProcessSpec(ADAPTERS[kind](function))
        return super()._function_spec(kind, function)

    def _operator(self) -> NoReturn:
        raise not_an_operator("a keyed stream")
