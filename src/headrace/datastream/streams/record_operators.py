"""Operators that make records of the records of one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, overload

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role
from headrace.common.signatures import check_returns, check_yields, warn_without_results
from headrace.common.type_variables import OUT, T_co
from headrace.common.typeinfo import Types
from headrace.datastream.functions import FilterFunction, FlatMapFunction, Function, MapFunction, ProcessFunction
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
from headrace.datastream.streams.enriching import lookup_spec
from headrace.datastream.streams.requests import request_settings
from headrace.datastream.streams.stream import Stream
from headrace.datastream.streams.timer_misuse import check_has_no_timers
from headrace.datastream.streams.timestamps import check_strategy
from headrace.datastream.streams.types import TypeOrigin, declared_type, is_untyped, result_type
from headrace.expressions import Expression
from headrace.graph import specs
from headrace.graph.process_specs import ProcessSpec
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    import pyarrow as pa

    from headrace.common.function_protocols import SupportsFilter, SupportsFlatMap, SupportsMap
    from headrace.common.output_tag import OutputTag
    from headrace.common.row import Row
    from headrace.common.time import Duration, Time
    from headrace.common.typeinfo import DeclaredType
    from headrace.datastream.functions import AsyncRetryStrategy
    from headrace.datastream.lookup import Lookup, LookupCache
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.process_protocols import SupportsProcess
    from headrace.time.watermark_strategy import WatermarkStrategy

_CONDITION: Final = ', or a condition such as col("amount") > 10 with col of headrace.expressions'


class RecordOperators(Stream[T_co], Generic[T_co]):
    """What a stream may have made of its records, one by one or batch by batch."""

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
        misses: Literal["keep", "drop"] | OutputTag[Any] = "keep",
        timeout: Duration | Time | timedelta | int = 60_000,
        capacity: int = 100,
        retries: AsyncRetryStrategy[Any] | None = None,
    ) -> DataStream[tuple[T_co, Any]]:
        """Joins each record with what is found of its key when it comes: pairs ``(record, found)``; not in PyFlink.

        What changes later changes no pair. Pairs leave in the order of their records; a record whose key has several
        rows is in several pairs. Each key is asked for once at a time, many of them at once.

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
                with that key and a list, or an empty one: ``empty_result_predicate`` asks again for what was missing.

        Raises:
            InvalidTypeError: when an argument is of the wrong kind, or there is no such field.
            InvalidProgramError: when the capacity is not positive, the timeout is negative, there are retries without
                one, or the cache does not fit the lookup.
        """
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
