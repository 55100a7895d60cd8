"""How the records of a stream are spread over the subtasks of the next operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.type_variables import T_co
from headrace.datastream.streams.stream import Stream
from headrace.graph.nodes import Edge
from headrace.graph.partitioning import BROADCAST

if TYPE_CHECKING:
    from headrace.datastream.streams.broadcast_stream import BroadcastStream
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.graph.partitioning import Partitioning
    from headrace.state.descriptors import MapStateDescriptor


@hides_engine_of_methods
class SpreadingOperators(Stream[T_co], Generic[T_co]):
    """The ways to say so. A keyed stream has none of them: it is spread by its keys."""

    @overload
    def broadcast(self) -> DataStream[T_co]: ...
    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *more: MapStateDescriptor
    ) -> BroadcastStream[T_co]: ...
    def broadcast(self, broadcast_state_descriptor: MapStateDescriptor | None = None, *more: MapStateDescriptor) -> Any:
        """Has every subtask of the next operator get every record.

        Args:
            broadcast_state_descriptor: of the state that a function keeps of these records; then the result is for
                ``connect``.
            more: further ones.

        Raises:
            InvalidTypeError: when one is no ``MapStateDescriptor``.
            InvalidProgramError: when two have the same name, or one has a time to live; on a keyed stream.
        """
        descriptors = () if broadcast_state_descriptor is None else (broadcast_state_descriptor, *more)
        return self._environment._broadcast(self._spread(BROADCAST), descriptors)

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        """The same records, spread in some way."""
        edges = tuple(Edge(edge.source, partitioning, edge.side_output) for edge in self._edges)
        return self._environment._stream(edges, self._type_origin)
