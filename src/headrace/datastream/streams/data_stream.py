"""``DataStream``: records on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, overload

import pyarrow as pa

from headrace.common.arguments import check_returns, check_yields, warn_without_results
from headrace.common.call_site import caller
from headrace.common.errors import InvalidTypeError, expect, refused
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, Time
from headrace.common.type_variables import (
    OUT,
    K,
    SupportsFilter,
    SupportsFlatMap,
    SupportsGetKey,
    SupportsMap,
    T2_co,
    T_co,
    V,
)
from headrace.common.typeinfo import DeclaredType, TypeInformation, Types
from headrace.common.types import Row
from headrace.connectors.driver_sink import PrintSink
from headrace.connectors.sink import Sink
from headrace.connectors.sink_checks import check_properties
from headrace.datastream.functions import (
    AsyncRetryStrategy,
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    ProcessFunction,
)
from headrace.datastream.streams.checks import (
    Violations,
    as_column,
    bound,
    bound_columns,
    bound_condition,
    check_condition,
    check_function,
    check_object,
    check_same_type,
    check_strategy,
    expectation_spec,
    projected,
    titled,
)
from headrace.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams
from headrace.datastream.streams.keying import key_of
from headrace.datastream.streams.misuse import check_has_no_timers
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream, by_subtask
from headrace.datastream.streams.physical_partitioning import PhysicalPartitioning
from headrace.datastream.streams.sinks import (
    CloseableIterator,
    DataStreamSink,
    SupportsPreWriteTopology,
    add_sink,
    collected,
    collected_later,
    to_dataframe,
    with_pre_write_topology,
)
from headrace.datastream.streams.stream import side_stream
from headrace.datastream.streams.types import (
    Role,
    SupportsProcess,
    TypeOrigin,
    declared_type,
    is_untyped,
    one_key,
    result_type,
    unchanged,
    weakest,
)
from headrace.datastream.streams.windowed_stream import AllWindowedStream, full_windows
from headrace.expressions import Expression
from headrace.graph import specs
from headrace.graph.partitioning import (
    FORWARD,
    ForwardByKey,
)
from headrace.graph.process_specs import ProcessSpec
from headrace.graph.specs import MapSpec
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY
from headrace.operators.functions import method_of
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import WindowAssigner

if TYPE_CHECKING:
    from headrace.datastream.lookup import Lookup, LookupCache
    from headrace.datastream.streams.connected_streams import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
    )
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.datastream.streams.source_stream import CachedDataStream


_CONDITION: Final = ', or a condition such as col("amount") > 10 with col of headrace.expressions'


class DataStream(PhysicalPartitioning[T_co], Generic[T_co]):
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

    @overload
    def map(
        self, func: Callable[[T_co], OUT] | SupportsMap[T_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def map(
        self, func: Callable[[T_co], Any] | SupportsMap[T_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    @overload
    def map(self, func: Expression, output_type: DeclaredType[OUT] | None = None) -> DataStream[OUT]: ...
    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """Makes one record of each record.

        Args:
            func: a ``MapFunction``, a function of a record, or an expression (``col("x") * 2``), which is computed
                for whole batches.
            output_type: the type of the new records; taken from the function's annotations when left out, and pickled
                objects when those say nothing. An expression says it itself.
        """
        if isinstance(func, Expression):
            value = bound(func, self._type, "map")
            check_same_type("map", value, output_type)
            spec = specs.SelectSpec((value,), value.type)
            return self._apply(spec, titled("Map", func), origin=TypeOrigin.DECLARED)
        check_function(func, MapFunction, "map")
        if not is_untyped(result_type(output_type, func)):
            check_returns(func, "map")
        return self._transform(specs.MapSpec, "Map", func, output_type, Role.ONE)

    @overload
    def flat_map(
        self, func: Callable[[T_co], Iterable[OUT] | None] | SupportsFlatMap[T_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def flat_map(
        self,
        func: Callable[[T_co], Iterable[Any] | None] | SupportsFlatMap[T_co, Any],
        output_type: DeclaredType[OUT],
    ) -> DataStream[OUT]: ...
    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Makes any number of records of each record.

        Args:
            func: a ``FlatMapFunction`` or a function of a record; it yields records or returns an iterable of them.
            output_type: as for :meth:`map`; the annotation is ``Iterable[X]`` or the like.
        """
        check_function(func, FlatMapFunction, "flat_map")
        check_yields(func, "flat_map")
        return self._transform(specs.FlatMapSpec, "FlatMap", func, output_type)

    def filter(self, func: Callable[[T_co], bool] | SupportsFilter[T_co] | Expression) -> DataStream[T_co]:
        """Keeps the records for which a ``FilterFunction``, a function of a record or an expression is true.

        With an expression (``col("amount") > 10``) this is done for whole batches; null is not true.
        """
        if isinstance(func, Expression):
            condition = bound_condition(func, self._type, "filter")
            return self._apply(specs.ColumnFilterSpec(condition), titled("Filter", func))
        check_function(func, FilterFunction, "filter", otherwise=_CONDITION)
        check_condition(method_of(func, "filter"), "filter")
        check_returns(func, "filter")
        return self._apply(specs.FilterSpec(func), "Filter")

    def expect(
        self,
        name: str,
        condition: Callable[[T_co], bool] | SupportsFilter[T_co] | Expression,
        violations: Violations = "count",
    ) -> DataStream[T_co]:
        """Expects each record to meet a condition: a gate for the quality of data; not in PyFlink.

        The metric ``numViolations`` of the operator counts the records that do not. Since nothing of an epoch is
        visible before its end, all sinks of the job are behind the gate, wherever in the job it stands.

        Args:
            name: the name of the expectation, as metrics and errors show it.
            condition: an expression (``col("amount") > 0``), whose null is a violation, or a function of a record.
            violations: what becomes of a record that violates it: ``"count"`` passes it on, ``"drop"`` leaves it out,
                an ``OutputTag`` has it leave by that side output. With ``"fail"`` the job fails, and nothing of the
                epoch is published. With ``"hold"`` the job waits before anything of the epoch is published, until
                the epoch is released or the job is ended.

        Raises:
            InvalidTypeError: when an argument is of the wrong kind, or there is no such field.
            InvalidProgramError: when the name is empty, or there is no such way to treat violations.
        """
        return self._apply(expectation_spec(self._type, name, condition, violations), name)

    def select(self, *columns: Expression | str | int) -> DataStream[Row]:
        """Makes a row of some expressions of each record: ``select("user", (col("amount") * 2).alias("double"))``.

        Args:
            columns: what the fields of the rows are; a name or a position stands for the field as it is.

        Raises:
            InvalidTypeError: when there is no such field, types do not go together, or the records have no columns.
            InvalidProgramError: when a field has no name, or two have the same.
        """
        expressions = [as_column(column) for column in columns]
        values, names = bound_columns(expressions, self._type)
        row_type = Types.ROW_NAMED(names, [value.type for value in values])
        name = titled("Select", *expressions)
        return self._apply(specs.SelectSpec(values, row_type), name, origin=TypeOrigin.DECLARED)

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Keeps some fields of tuples, in the order that is given: ``project(2, 0)``.

        Raises:
            InvalidTypeError: when the records are no tuples, or there is no such field.
        """
        values = projected(field_indexes, self._type)
        tuple_type = Types.TUPLE([value.type for value in values])
        return self._apply(specs.SelectSpec(values, tuple_type), titled("Projection", *field_indexes))

    @overload
    def process(self, func: SupportsProcess[T_co, OUT], output_type: None = None) -> DataStream[OUT]: ...
    @overload
    def process(self, func: SupportsProcess[T_co, Any], output_type: DeclaredType[OUT]) -> DataStream[OUT]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """Applies a ``ProcessFunction``, which may write to side outputs.

        Args:
            func: the function; it has neither state nor timers, those come with ``key_by(...)``.
            output_type: as for :meth:`flat_map`.

        Raises:
            InvalidProgramError: when it has timers.
        """
        check_object(func, ProcessFunction, "process_element")
        check_has_no_timers(func, ("process_element",), "call key_by(...) first")
        warn_without_results(func, "process_element")
        return self._transform(ProcessSpec, "Process", func, output_type)

    def map_batches(
        self, func: Callable[[pa.RecordBatch], pa.RecordBatch | None], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]:
        """Applies a function to Arrow record batches, some ten thousand records at a time.

        Args:
            func: takes a ``pyarrow.RecordBatch`` whose columns are the fields of the records, and returns one whose
                columns are the fields of ``output_type``, or None for no records. With as many rows as it was given
                each row keeps its timestamp; otherwise all get the latest of the batch.
            output_type: the type of the new records.

        Raises:
            InvalidTypeError: when one of the two types is unknown, so that there are no columns.
        """
        check_function(func, Function, "map_batches")
        found = declared_type(output_type)
        for role, type_info in (("records", self._type), ("results", found)):
            if is_untyped(type_info):
                raise refused(
                    f"map_batches needs columns, but the {role} are pickled objects: give their type, as output_type",
                    InvalidTypeError,
                )
        return self._apply(specs.MapBatchesSpec(func, found), "MapBatches", origin=TypeOrigin.DECLARED)

    def enrich(
        self,
        lookup: Lookup | Callable[[Any], Any],
        on: Any,
        *,
        cache: LookupCache | None = None,
        misses: Literal["keep", "drop"] | OutputTag = "keep",
        timeout: Duration | Time | timedelta | int = 60_000,
        capacity: int = 100,
        retries: AsyncRetryStrategy | None = None,
    ) -> DataStream[tuple[T_co, Any]]:
        """Joins each record with what is found of its key when it comes: pairs ``(record, found)``; not in PyFlink.

        What changes later changes no pair. Pairs leave in the order of their records; a record whose key has several
        rows is in several pairs. Each key is looked up once at a time, many of them at once.

        Args:
            lookup: a :class:`~headrace.datastream.lookup.Lookup`: a function, a static DataFrame, a table of a
                database; or a function of a key, which may be ``async def``.
            on: the key of a record: a field, a tuple of fields, a ``KeySelector`` or a function. None is found nowhere.
            cache: what is kept of what was found; nothing when left out.
            misses: what becomes of a record whose key is found nowhere: ``"keep"`` has it in a pair with None,
                ``"drop"`` leaves it out, an ``OutputTag`` has it leave by that side output.
            timeout: how long a request may take, with all its attempts; then the job fails. 0 for as long as it takes.
            capacity: how many requests of each parallel instance are in flight at most.
            retries: when there is another attempt. Its ``result_predicate`` is given what was found of a key, as a dict
                with that key and a list, or an empty one: ``empty_result_predicate`` repeats the request for what was
                missing.

        Raises:
            InvalidTypeError: when an argument is of the wrong kind, or there is no such field.
            InvalidProgramError: when the capacity is not positive, the timeout is negative, there are retries without
                one, or the cache does not fit the lookup.
        """
        # Few programs look things up, and asyncio takes long to import.
        from headrace.datastream.lookup import lookup_spec, request_settings

        strategy = NO_RETRY_STRATEGY if retries is None else retries
        requests = request_settings(timeout, capacity, strategy, is_ordered=False, strategy_argument="retries")
        spec = lookup_spec(self._type, lookup, on, cache, misses, requests)
        return self._apply(spec, "Lookup", origin=TypeOrigin.DECLARED)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[T_co]) -> DataStream[T_co]:
        """Takes event time from records; timestamps and watermarks from before are replaced.

        Directly after a source this works on each split of it, as a strategy given to ``from_source`` does.
        """
        check_strategy(watermark_strategy, self._type)
        return self._apply(specs.TimestampsSpec(watermark_strategy), "Timestamps/Watermarks")

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

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream[T_co]:
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
            InvalidTypeError: when the same side output was requested with another type, or its records cannot be of
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

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Writes the records to a sink.

        Raises:
            InvalidTypeError: when the sink cannot write records of this type.
        """
        expect(sink, Sink, "sink_to")
        check_properties(sink)
        stream, added = (
            with_pre_write_topology(sink, self) if isinstance(sink, SupportsPreWriteTopology) else (self, ())
        )
        return add_sink(stream, sink, f"Sink: {type(sink).__name__}", added)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints the records in the driver; lines begin with ``sink_identifier`` if there is one.

        Raises:
            InvalidTypeError: when ``sink_identifier`` is no text.
        """
        if sink_identifier is not None:
            expect(sink_identifier, str, "print")
        sink = PrintSink(sink_identifier, is_declared=self._type_origin is TypeOrigin.DECLARED)
        return add_sink(self, sink, "Print to Std. Out")

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Runs the job, with everything else that was built, and gives the records to the program.

        Args:
            job_execution_name: the name of the job.
            limit: how many records are wanted; the job is cancelled when they are there.

        Returns:
            A list of at most ``limit`` records; without a limit an iterator over all of them while the job runs. Use
            it in a ``with`` statement, or close it: that ends the job.
        """
        return collected(self, job_execution_name, limit)

    def collect_async(self) -> CloseableIterator[T_co]:
        """Gives the records of the stream to the program while the next job runs, which it starts itself.

        So several streams of one job can be collected. Start the job with ``execute_async()``, and take the records of
        all of them: it waits where four epochs of one are waiting to be taken. With ``execute()`` they are all kept in
        memory until the job is over.

        Raises:
            InvalidProgramError: of the iterator, when records are read from it before the job was started.

        Examples:
            >>> from headrace.datastream import StreamExecutionEnvironment
            >>> env = StreamExecutionEnvironment.get_execution_environment()
            >>> numbers = env.from_sequence(1, 4)
            >>> squares = numbers.map(lambda number: number * number, output_type=int).collect_async()
            >>> halves = numbers.filter(lambda number: number % 2 == 0).collect_async()
            >>> _ = env.execute_async("squares and halves")
            >>> list(squares), list(halves)
            ([1, 4, 9, 16], [2, 4])
        """
        return collected_later(self)

    def to_dataframe(self, job_name: str | None = None) -> Any:
        """Runs the bounded job, with everything else that was built, and gives its records as a Spark DataFrame.

        Raises:
            InvalidProgramError: when a source is unbounded.
            UnsupportedOperationError: when the runtime has no DataFrames.
        """
        return to_dataframe(self, job_name)

    # --- for the classes of this package -----------------------------------------------------------------------------

    def _without_keys(self) -> DataStream[T_co]:
        """This stream, before it was keyed."""
        return self

    def _converted(self, type_info: TypeInformation) -> DataStream:
        if type_info == self._type:
            return self
        return self._apply(MapSpec(unchanged, type_info, is_hidden=True), "Map")

    def _untyped(self) -> DataStream:
        return self._converted(Types.PICKLED_BYTE_ARRAY())
