"""``DataStream``: records on their way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, overload

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role
from headrace.common.other_names import other_names, without_effect
from headrace.common.output_tag import OutputTag
from headrace.common.signatures import check_returns, check_yields, warn_without_results
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.type_variables import OUT, K, T2_co, T_co
from headrace.common.typeinfo import Types
from headrace.connectors.print_sink import PrintSink
from headrace.connectors.sink import Sink
from headrace.datastream.functions import FilterFunction, FlatMapFunction, Function, MapFunction, ProcessFunction
from headrace.datastream.streams.all_windowed_stream import AllWindowedStream
from headrace.datastream.streams.checks import check_function, check_object
from headrace.datastream.streams.columns import (
    as_column,
    bound,
    bound_columns,
    bound_condition,
    check_same_type,
    projected,
    titled,
)
from headrace.datastream.streams.handle import OperatorHandle, not_an_operator
from headrace.datastream.streams.keying import key_of
from headrace.datastream.streams.other_names import OTHER_NAMES, WITHOUT_EFFECT, WITHOUT_EFFECT_ON_SINKS
from headrace.datastream.streams.partition_windowed_stream import PartitionWindowedStream, by_subtask
from headrace.datastream.streams.pre_write import NO_TOPOLOGY, PreWriteTopology, before_writers
from headrace.datastream.streams.results import CloseableIterator, collected, to_dataframe
from headrace.datastream.streams.timestamps import check_strategy
from headrace.datastream.streams.types import (
    TypeOrigin,
    declared_type,
    is_untyped,
    never_fits,
    one_key,
    origin_of,
    result_type,
    unchanged,
    weakest,
)
from headrace.datastream.streams.windowed_stream import full_windows
from headrace.expressions import Expression
from headrace.graph import specs
from headrace.graph.nodes import Edge
from headrace.graph.partitioning import BROADCAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from headrace.common.function_protocols import SupportsFilter, SupportsFlatMap, SupportsGetKey, SupportsMap
    from headrace.common.row import Row
    from headrace.common.typeinfo import DeclaredType, TypeInformation
    from headrace.datastream.execution_config import ExecutionConfig
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from headrace.datastream.streams.connected_streams import ConnectedStreams
    from headrace.datastream.streams.keyed_stream import KeyedStream
    from headrace.datastream.streams.process_protocols import SupportsProcess
    from headrace.graph.nodes import Node
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.specs import OperatorSpec
    from headrace.state.descriptors import MapStateDescriptor
    from headrace.time.watermark_strategy import WatermarkStrategy
    from headrace.windowing.assigner import WindowAssigner

_CONDITION: Final = ', or a condition such as col("amount") > 10 with col of headrace.expressions'


@hides_engine_of_methods
@other_names(OTHER_NAMES)
@without_effect(WITHOUT_EFFECT)
class DataStream(OperatorHandle, Generic[T_co]):
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

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        edges: tuple[Edge, ...],
        *,
        origin: TypeOrigin = TypeOrigin.DECLARED,
    ) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._edges = edges
        self._type = self._transformations.graph.record_type(edges[0])
        self._type_origin = origin

    # --- what it is --------------------------------------------------------------------------------------------------

    def get_type(self) -> TypeInformation[T_co]:
        """The type of the records."""
        return self._type

    def get_name(self) -> str:
        """The name of the operator that the stream comes from.

        Raises:
            InvalidProgramError: when it is keyed, a union or a side output.
        """
        return self._operator().name

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The settings of the environment."""
        return self._environment.get_config()

    # --- operators ---------------------------------------------------------------------------------------------------

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
    def map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
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
    def flat_map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
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
        check_returns(func, "filter")
        return self._apply(specs.FilterSpec(func), "Filter")

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
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a ``ProcessFunction``, which may write to side outputs.

        Args:
            func: the function; it has neither state nor timers, those come with ``key_by(...)``.
            output_type: as for :meth:`flat_map`.
        """
        check_object(func, ProcessFunction, "process_element")
        if not isinstance(func, ProcessFunction) and callable(getattr(func, "on_timer", None)):
            raise refused(f"{type(func).__name__} has timers, which belong to keys: call key_by(...) first")
        warn_without_results(func, "process_element")
        return self._transform(specs.ProcessSpec, "Process", func, output_type)

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

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[T_co]) -> DataStream[T_co]:
        """Takes event time from records; timestamps and watermarks from before are replaced.

        Directly after a source this works on each split of it, as a strategy given to ``from_source`` does.
        """
        check_strategy(watermark_strategy, self._type)
        return self._apply(specs.TimestampsSpec(watermark_strategy), "Timestamps/Watermarks")

    # --- streams to streams ------------------------------------------------------------------------------------------

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
        # The environment makes it: KeyedStream derives from this class, so its module cannot be imported here.
        return self._environment._keyed(self._without_keys(), key_of(self._type, key_selector, more, key_type))

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
        return DataStream(self._environment, tuple(edges), origin=origin)

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
            InvalidProgramError: when two have the same name, or one has a time to live.
        """
        descriptors = () if broadcast_state_descriptor is None else (broadcast_state_descriptor, *more)
        return self._environment._broadcast(self._spread(BROADCAST), descriptors)

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that the operator directly before wrote to a side output.

        Raises:
            InvalidProgramError: when this is not directly the output of an operator, or one without side outputs.
            InvalidTypeError: when the same side output was asked for with another type, or its records cannot be of
                that of the tag.
        """
        expect(output_tag, OutputTag, "get_side_output")
        node = self._with_side_output(output_tag)
        return _side_stream(self._environment, output_tag, node)

    # --- ends --------------------------------------------------------------------------------------------------------

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Writes the records to a sink.

        Raises:
            InvalidTypeError: when the sink cannot write records of this type.
        """
        expect(sink, Sink, "sink_to")
        graph = self._transformations.graph
        known = len(graph)
        stream = before_writers(sink, self)
        sink.validate(stream._type)
        return stream._end(sink, f"Sink: {type(sink).__name__}", PreWriteTopology.of(graph, known))

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints the records in the driver; lines begin with ``sink_identifier`` if there is one.

        Raises:
            InvalidTypeError: when ``sink_identifier`` is no text.
        """
        if sink_identifier is not None:
            expect(sink_identifier, str, "print")
        sink = PrintSink(sink_identifier, is_declared=self._type_origin is TypeOrigin.DECLARED)
        return self._end(sink, "Print to Std. Out")

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

    def to_dataframe(self, job_name: str | None = None) -> Any:
        """Runs the bounded job, with everything else that was built, and gives its records as a Spark DataFrame.

        Raises:
            InvalidProgramError: when a source is unbounded.
            UnsupportedOperationError: when the runtime has no DataFrames.
        """
        return to_dataframe(self, job_name)

    # --- for the classes of this package -----------------------------------------------------------------------------

    def _apply(self, spec: OperatorSpec, name: str, *more: DataStream, origin: TypeOrigin | None = None) -> DataStream:
        """The stream behind a new operator.

        Args:
            spec: what the operator does.
            name: its name.
            more: what its other inputs read; this stream is the first.
            origin: where the type of the results comes from; where that of this stream does, unless it is said.
        """
        streams = enumerate((self, *more))
        edges = tuple(replace(edge, input_index=index) for index, stream in streams for edge in stream._edges)
        node = self._transformations.add(spec, name, edges)
        found = self._type_origin if origin is None else origin
        return DataStream(self._environment, (Edge(node.id),), origin=found)

    def _transform(
        self,
        kind: Callable[[Any, TypeInformation], OperatorSpec],
        name: str,
        function: Any,
        output_type: Any,
        role: Role = Role.MANY,
    ) -> DataStream:
        """The stream of what a function makes of the records; ``kind`` makes a spec of it and of its results' type."""
        found = result_type(output_type, function, role)
        return self._apply(kind(function, found), name, origin=origin_of(output_type))

    def _without_keys(self) -> DataStream[T_co]:
        """This stream, before it was keyed."""
        return self

    def _converted(self, type_info: TypeInformation) -> DataStream:
        """The same records under another type."""
        if type_info == self._type:
            return self
        return self._apply(specs.MapSpec(unchanged, type_info, is_hidden=True), "Map")

    def _untyped(self) -> DataStream:
        """The same records; nothing is known of them."""
        return self._converted(Types.PICKLED_BYTE_ARRAY())

    def _end(self, sink: Sink, name: str, pre_write: PreWriteTopology = NO_TOPOLOGY) -> DataStreamSink:
        node = self._transformations.add(specs.SinkSpec(sink), name, self._edges)
        return DataStreamSink(self._environment, node.id, pre_write)

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        """The same records, without keys, spread over the subtasks of the next operator in some way."""
        edges = tuple(Edge(edge.source, partitioning, edge.side_output) for edge in self._edges)
        return DataStream(self._environment, edges, origin=self._type_origin)

    def _unkeyed_edges(self) -> tuple[Edge, ...]:
        """Where its records come from, without their keys."""
        return self._edges

    def _facts(self) -> dict[str, object]:
        return {"records": self._type}

    def _operator_ids(self) -> set[int]:
        return {edge.source for edge in self._edges}

    def _operator(self) -> Node:
        if len(self._edges) == 1 and self._edges[0].side_output is None:
            return self._transformations.graph[self._edges[0].source]
        raise not_an_operator("a union" if len(self._edges) > 1 else "a side output")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._type})"


@hides_engine_of_methods
@other_names()
@without_effect(WITHOUT_EFFECT_ON_SINKS)
class DataStreamSink(OperatorHandle):
    """The end of a stream: a sink that was added to it.

    Args:
        environment: the environment.
        node_id: the sink among its operators.
        pre_write: the operators that the sink has added before itself.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([1, 2]).print().name("to the terminal").uid("terminal")
        >>> sink.get_name()
        'to the terminal'
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, node_id: int, pre_write: PreWriteTopology = NO_TOPOLOGY
    ) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._node_id = node_id
        self._pre_write = pre_write

    def get_name(self) -> str:
        """The name of the sink."""
        return self._operator().name

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that the sink cannot write, as ``(where, raw, reason)``, where it was given this tag for them.

        Raises:
            InvalidProgramError: when it was not.
            InvalidTypeError: when they cannot be of the type of the tag.
        """
        expect(output_tag, OutputTag, "get_side_output")
        return _side_stream(self._environment, output_tag, self._with_side_output(output_tag))

    def __repr__(self) -> str:
        node = self._operator()
        uid = "no uid" if node.uid is None else f"uid {node.uid}"
        return f"DataStreamSink({node.name!r}, {uid})"

    def _facts(self) -> dict[str, object]:
        spec = self._operator().spec
        return {"sink": type(spec.sink).__name__} if isinstance(spec, specs.SinkSpec) else {}

    def _operator_ids(self) -> set[int]:
        return {self._node_id}

    def _operator(self) -> Node:
        return self._transformations.graph[self._node_id]

    def _update(self, **changes: Any) -> None:
        super()._update(**changes)
        self._pre_write.take_over(self._transformations.graph, changes)


def _side_stream(environment: StreamExecutionEnvironment, output_tag: OutputTag, node: Node) -> DataStream[Any]:
    """What an operator writes to a side output, of the type that the tag says."""
    edges = (Edge(node.id, side_output=output_tag.tag_id),)
    if is_untyped(output_tag.type_info):
        return DataStream(environment, edges, origin=TypeOrigin.ANNOTATED)
    records: DataStream[Any] = DataStream(environment, edges)
    if never_fits(records._type, output_tag.type_info):
        raise refused(
            f"the records of the side output {output_tag.tag_id!r} are of type {records._type}, and the tag says "
            f"{output_tag.type_info}: leave the type of the tag out",
            InvalidTypeError,
        )
    return records._converted(output_tag.type_info)
