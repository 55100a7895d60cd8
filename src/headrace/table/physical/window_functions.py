"""Conversion of window table-valued functions, of which sessions emit rows only when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.common.logical_types import ArrayType, RowType
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalWindowTableFunction, WindowKind
from headrace.table.logical.scalars import AggregateCall, Call, InputRef
from headrace.table.logical.schema import Schema, TimeAttribute, unique_names
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.changelog_functions import FromChangelog, ToChangelog
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.correlates import Correlate
from headrace.table.physical.node import Edges, PhysicalNode
from headrace.table.physical.translation import GraphBuilder
from headrace.table.physical.window_aggregates import WindowAggregate
from headrace.table.physical.windows import WindowingStrategy, WindowTableFunction


@dataclass(frozen=True)
class SessionTableFunction(WindowTableFunction):
    """Each row with its session, once that has ended.

    The rows of a session are collected like the values of an aggregate, and unnested when the session ends. Changes are
    collected as they are: a row that is taken back is emitted, and taken back then.
    """

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if self.input.mode.is_insert_only:
            return builder.translate(self._after_sessions(self.input, 0))
        changes = ToChangelog(self.input, "$kind")
        return builder.translate(FromChangelog(self._after_sessions(changes, 1), 0))

    def _after_sessions(self, source: PhysicalNode, shift: int) -> PhysicalNode:
        """Each row of a source, whose columns stand so many places further right, with the columns of its session."""
        keys = tuple(shift + key for key in self.partition_by)
        return self._unnested(self._collected(source, keys, shift + self.time_column), source.schema, len(keys))

    def _collected(self, source: PhysicalNode, keys: tuple[int, ...], time_column: int) -> WindowAggregate:
        """The rows of each session in an array."""
        given = source.schema
        refs = InputRef.all_of(given)
        row = Call("ROW", refs, type=RowType(given.names, given.types, nullable=False))
        calc = Calc(source, (*refs, row), (*given.names, "$row"))
        rows = AggregateCall("ARRAY_AGG", (len(refs),), ArrayType(row.type))
        names = (*(f"$key{place}" for place in range(len(keys))), "$rows")
        exchange = Exchange(calc, keys)
        return WindowAggregate(exchange, self.window, keys, (rows,), names, time_column, False, self.columns)

    def _unnested(self, collected: WindowAggregate, given: Schema, keys: int) -> PhysicalNode:
        """The rows, with the columns of their session appended."""
        width = len(collected.schema)
        nullable = Schema(tuple(field.as_nullable() for field in given))
        node = Correlate(collected, InputRef.of(collected.schema, keys), nullable)
        places = (*range(width, width + len(given)), *range(keys + 1, keys + 4))
        names = unique_names((*given.names, *self.schema.names[-3:]))
        return Calc(node, tuple(InputRef.of(node.schema, place) for place in places), names)


@conversion_rule(LogicalWindowTableFunction)
def _window_function(function: LogicalWindowTableFunction, context: ConversionContext) -> PhysicalNode:
    is_session = function.kind is WindowKind.SESSION
    if is_session and context.is_batch:
        raise PlanningError("Unaligned windows like session are not supported in batch mode yet.")
    source = converted(function.input, context)
    time = source.schema[function.time_column]
    if time.time is None and not context.is_batch:
        raise PlanningError(
            "The window function requires the timecol is a time attribute type, but is "
            f"{time.type.as_nullable()}: a regular join, DISTINCT and GROUP BY end it, so apply the windows below them"
        )
    is_of_clock = time.time is TimeAttribute.PROCTIME
    window = WindowingStrategy(function.kind, function.size, function.step, function.offset, time.type, is_of_clock)
    kind = SessionTableFunction if is_session else WindowTableFunction
    if is_session:
        source = Exchange(source, function.partition_by)
    return kind(source, window, function.time_column, function.window_columns, function.partition_by)
