"""Physical partitioning: programs choose which subtasks of the next operator receive records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from headrace.common.call_site import caller
from headrace.common.type_variables import K, SupportsGetKey, T_co
from headrace.datastream.functions import Partitioner
from headrace.datastream.streams.checks import check_function, check_has_no_state, check_is_not_opened
from headrace.datastream.streams.keying import selector_of
from headrace.datastream.streams.stream import Stream
from headrace.graph.partitioning import (
    BROADCAST,
    FORWARD_ALWAYS,
    GLOBAL,
    REBALANCE,
    RESCALE,
    SHUFFLE,
    Custom,
    Partitioning,
)
from headrace.graph.stream_graph import Edge
from headrace.operators.functions import method_of
from headrace.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from headrace.datastream.streams.connected_streams import BroadcastStream
    from headrace.datastream.streams.data_stream import DataStream


class PhysicalPartitioning(Stream[T_co], Generic[T_co]):
    """The methods of a :class:`DataStream` that choose which subtask of the next operator gets a record."""

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

    def rebalance(self) -> DataStream[T_co]:
        """Has the subtasks of the next operator get the same share of the records, in turn."""
        return self._spread(REBALANCE)

    def rescale(self) -> DataStream[T_co]:
        """Has each subtask share its records, in turn, among a group of the next operator's subtasks, and no others."""
        return self._spread(RESCALE)

    def shuffle(self) -> DataStream[T_co]:
        """Has each record go to any subtask of the next operator.

        Chance follows from the number of the epoch, so an epoch that is run again sends the same records there.
        """
        return self._spread(SHUFFLE)

    def forward(self) -> DataStream[T_co]:
        """Has records stay with their subtask, which they do where nothing is said; but then the numbers may differ.

        Raises:
            InvalidProgramError: when the job is planned, and the next operator has another parallelism.
        """
        return self._spread(FORWARD_ALWAYS)

    def global_(self) -> DataStream[T_co]:
        """Has the first subtask of the next operator get every record; not in PyFlink."""
        return self._spread(GLOBAL)

    def partition_custom(
        self,
        partitioner: Partitioner[K] | Callable[[K, int], int],
        key_selector: Callable[[T_co], K] | SupportsGetKey[T_co, K] | str | int,
    ) -> DataStream[T_co]:
        """Has a function say which subtask of the next operator gets a record. The stream is not keyed by that.

        Args:
            partitioner: called with the key of a record and the number of subtasks, gives the number of one, from 0.
            key_selector: the key of a record: a function, a ``KeySelector``, the name or position of a field.

        Raises:
            InvalidTypeError: when one of them is something else.
            UnsupportedOperationError: when one of them wants to be opened.
        """
        check_function(partitioner, Partitioner, "partition")
        instead = "put into the record what it needs, with a map()"
        check_is_not_opened(partitioner, Partitioner, "partitioner", instead)
        check_has_no_state(partitioner, "partitioner", f"{instead} that keeps the state")
        partition = method_of(partitioner, "partition")
        select = selector_of(self._type, key_selector, "partition_custom")
        return self._spread(Custom(partition, select, caller()))

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        edges = tuple(Edge(edge.source, partitioning, edge.side_output) for edge in self._edges)
        return self._environment._stream(edges, self._type_origin)
