"""``DataStream``: records on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.type_variables import OUT, T2_co, T_co
from headrace.common.typeinfo import Types
from headrace.datastream.streams.end_operators import EndOperators
from headrace.datastream.streams.grouping_operators import GroupingOperators
from headrace.datastream.streams.record_operators import RecordOperators
from headrace.datastream.streams.side_outputs import side_stream
from headrace.datastream.streams.spreading_operators import SpreadingOperators
from headrace.datastream.streams.types import TypeOrigin, unchanged, weakest
from headrace.graph.specs import MapSpec

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.streams.cached_stream import CachedDataStream
    from headrace.datastream.streams.connected.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from headrace.datastream.streams.connected.connected_streams import ConnectedStreams


class DataStream(
    RecordOperators[T_co], GroupingOperators[T_co], SpreadingOperators[T_co], EndOperators[T_co], Generic[T_co]
):
    """Records of one type; made by an environment or by an operator, never by calling this class.

    A stream is a cheap handle: every operator may be applied to it more than once, and gives a new stream.

    Args:
        environment: where the stream belongs.
        edges: where its records come from; several are a union.
        origin: where the type of its records comes from.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([1, 2, 3, 4])
        >>> even = numbers.filter(lambda n: n % 2 == 0)
        >>> even.map(lambda n: n * 10, output_type=int).execute_and_collect(limit=10)
        [20, 40]
    """

    def union(self, *streams: DataStream[T_co]) -> DataStream[T_co]:
        """This stream and others of the same type together, in no particular order; a stream may take part twice.

        Where the program leaves types out, as PyFlink allows, they may differ: nothing is known of the records then.

        Raises:
            InvalidTypeError: when the types differ, and all are declared.
            InvalidProgramError: when a stream belongs to another environment.
        """
        for stream in streams:
            expect(stream, DataStream, "union")
            if stream._environment is not self._environment:
                raise refused("a union takes streams of the same environment")
        members: list[DataStream] = [self, *streams]
        origin = weakest(stream._type_origin for stream in members)
        differing = next((stream._type for stream in streams if stream._type != self._type), None)
        if differing is not None:
            if origin is TypeOrigin.DECLARED:
                raise refused(f"a union of {self._type} and {differing}: types must be the same", InvalidTypeError)
            members = [stream._untyped() for stream in members]
        edges = [edge for stream in members for edge in stream._unkeyed_edges()]
        return self._environment._stream(tuple(edges), origin)

    @overload
    def connect(self, ds: DataStream[T2_co]) -> ConnectedStreams[T_co, T2_co]: ...
    @overload
    def connect(self, ds: BroadcastStream[T2_co]) -> BroadcastConnectedStream[T_co, T2_co]: ...
    def connect(self, ds: Any) -> Any:
        """This stream and another one, whose records may be of another type, as the two inputs of one function.

        Args:
            ds: the other stream; or one that all subtasks get as a whole, ``rules.broadcast(descriptor)``.

        Raises:
            InvalidTypeError: when it is no stream.
            InvalidProgramError: when it belongs to another environment.
        """
        return self._environment._connected(self, ds)

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that the operator directly before wrote to a side output.

        Raises:
            InvalidProgramError: when this is not directly the output of an operator, or one without side outputs.
            InvalidTypeError: when the same side output was asked for with another type, or its records cannot be of
                that of the tag.
        """
        return side_stream(self._environment, self, output_tag)

    def cache(self) -> CachedDataStream[T_co]:
        """This stream, of which the first job that finishes keeps the records for later jobs of the environment.

        Raises:
            InvalidProgramError: when it is not directly the output of an operator, a source is unbounded, or jobs have
                a checkpoint directory.
        """
        return self._environment._cached(self)

    # --- for the classes of this package -----------------------------------------------------------------------------

    def _without_keys(self) -> DataStream[T_co]:
        """This stream, before it was keyed."""
        return self

    def _converted(self, type_info: TypeInformation) -> DataStream:
        """The same records under another type."""
        if type_info == self._type:
            return self
        return self._apply(MapSpec(unchanged, type_info, is_hidden=True), "Map")

    def _untyped(self) -> DataStream:
        """The same records; nothing is known of them."""
        return self._converted(Types.PICKLED_BYTE_ARRAY())
