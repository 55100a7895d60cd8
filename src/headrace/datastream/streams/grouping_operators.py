"""Operators that bring records together: by key, in windows, by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from headrace.common.arguments import refused
from headrace.common.call_site import caller
from headrace.common.type_variables import K, T_co, V
from headrace.common.typeinfo import Types
from headrace.datastream.streams.all_windowed_stream import AllWindowedStream
from headrace.datastream.streams.joins.joined_streams import CoGroupedStreams, JoinedStreams
from headrace.datastream.streams.keying import key_of
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream, by_subtask
from headrace.datastream.streams.stream import Stream
from headrace.datastream.streams.types import one_key
from headrace.datastream.streams.windowed_stream import full_windows
from headrace.graph.partitioning import FORWARD, ForwardByKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.function_protocols import SupportsGetKey
    from headrace.common.typeinfo import DeclaredType
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.expressions import Expression
    from headrace.windowing.assigner import WindowAssigner


class GroupingOperators(Stream[T_co], Generic[T_co]):
    """How a stream may group its records."""

    @overload
    def key_by(
        self, key_selector: Callable[[T_co], K] | SupportsGetKey[T_co, K], *, key_type: None = None
    ) -> KeyedStream[T_co, K]: ...
    @overload
    def key_by(
        self, key_selector: Callable[[T_co], Any] | SupportsGetKey[T_co, Any], key_type: DeclaredType[K]
    ) -> KeyedStream[T_co, K]: ...
    @overload
    def key_by(
        self,
        key_selector: Expression | str | int,
        *more: Expression | str | int,
        key_type: DeclaredType[K] | None = None,
    ) -> KeyedStream[T_co, K]: ...
    def key_by(self, key_selector: Any, *more: Any, key_type: Any = None) -> KeyedStream[T_co, Any]:
        """Sends records with the same key to the same subtask, where state and timers belong to the key.

        Args:
            key_selector: a ``KeySelector``, a function of a record, the name or position of a field, or an expression
                (``col("card").upper()``). A function that only picks fields, ``lambda x: x.card``, is as fast as a
                name.
            more: more fields and expressions, the key is the tuple of all then; or ``key_type`` by position, as in
                PyFlink.
            key_type: the type of the key; found out from the field, the expression or from annotations when left out.
                Keys without a known type work, but slower.

        Raises:
            InvalidTypeError: when there is no such field, or values of the type cannot be keys.
        """
        return self._environment._keyed(self._without_keys(), key_of(self._type, key_selector, more, key_type))

    def reinterpret_as_keyed(
        self, key_selector: Any, *more: Any, key_type: DeclaredType[K] | None = None
    ) -> KeyedStream[T_co, Any]:
        """Takes the stream for one that is partitioned by these keys already, so that nothing is shuffled.

        That is so behind an operator of a keyed stream, as long as each record still has the key that it came with, and
        the numbers of subtasks and of key groups stay. Each record is checked: one whose key belongs to another subtask
        ends the job. In Flink it is ``DataStreamUtils.reinterpretAsKeyedStream``, which checks nothing; PyFlink has
        none.

        Args:
            key_selector: as for :meth:`key_by`; the type of the key has to be the same as there.
            more: as for :meth:`key_by`.
            key_type: as for :meth:`key_by`.

        Raises:
            InvalidTypeError: as :meth:`key_by`.
            InvalidProgramError: when the stream is keyed already, or spread in another way.
        """
        if any(edge.partitioning is not FORWARD for edge in self._edges):
            raise refused(
                "reinterpret_as_keyed(...) leaves records where they are, and these are spread anew before: use "
                "key_by(...)"
            )
        key = key_of(self._type, key_selector, more, key_type)
        return self._environment._keyed(self._without_keys(), key, ForwardByKey(caller()))

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream[T_co]:
        """Cuts all records into windows, whatever their keys; one subtask works on them.

        Raises:
            InvalidTypeError: when it is no window assigner.
        """
        return AllWindowedStream(self.key_by(one_key, key_type=Types.BYTE()), window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T_co]:
        """Cuts all records into windows of ``size`` records, which fire when they are full; one subtask does it.

        Args:
            size: how many records a window holds.
            slide: after how many records the next window begins; 0 has windows follow one another.

        Raises:
            InvalidProgramError: when ``size`` is not positive, or ``slide`` is negative.
        """
        assigner, trigger = full_windows(size, slide)
        return self.window_all(assigner).trigger(trigger)

    def join(self, other_stream: DataStream[V], how: str = "inner") -> JoinedStreams[T_co, V]:
        """Joins the records of this stream and another one that have the same key and are in the same window.

        ``orders.join(payments).where("id").equal_to("order").window(...).apply(...)``; not in PyFlink.

        Args:
            other_stream: the right stream.
            how: ``"inner"`` for pairs alone; ``"left"``, ``"right"`` or ``"outer"`` for records of the left stream, the
                right one or both that have no partner as well, with None in its place; not in Flink.

        Raises:
            InvalidTypeError: when it is no stream.
            InvalidProgramError: when it belongs to another environment, or ``how`` is none of these.
        """
        return JoinedStreams(self, other_stream, how)

    def co_group(self, other_stream: DataStream[V]) -> CoGroupedStreams[T_co, V]:
        """Has a function see all records of a key and a window, of this stream and another one; not in PyFlink.

        ``orders.co_group(payments).where("id").equal_to("order").window(...).apply(...)``.

        Raises:
            InvalidTypeError: when it is no stream.
            InvalidProgramError: when it belongs to another environment.
        """
        return CoGroupedStreams(self, other_stream)

    def full_window_partition(self) -> PartitionWindowedStream[T_co]:
        """Has all records of each subtask as one window, which fires when the input has ended; not in PyFlink.

        On a keyed stream it is all records of each key.
        """
        return by_subtask(self)
