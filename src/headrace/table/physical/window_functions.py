"""Conversion of window table-valued functions, of which sessions emit rows only when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.common.logical_types import ArrayType, RowType
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import WindowKind
from headrace.table.logical.scalars import AggregateCall, Call, InputRef
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.correlates import Correlate
from headrace.table.physical.node import Edges, PhysicalNode
from headrace.table.physical.translation import GraphBuilder
from headrace.table.physical.window_aggregates import WindowAggregate
from headrace.table.physical.windows import WindowingStrategy, WindowTableFunction


@dataclass(frozen=True)
class SessionTableFunction(WindowTableFunction):
    """Each row with its session, once that has ended.

    The rows of a session are collected like the values of an aggregate, and unnested when the session ends.
    """

    changelog = ChangelogRule(never, takes=Modify.INSERT)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.translate(self._unnested(self._collected()))

    def _collected(self) -> WindowAggregate:
        """The rows of each session in an array."""
        given = self.input.schema
        refs = InputRef.all_of(given)
        row = Call("ROW", refs, type=RowType(given.names, given.types, nullable=False))
        calc = Calc(self.input, (*refs, row), (*given.names, "$row"))
        rows = AggregateCall("ARRAY_AGG", (len(refs),), ArrayType(row.type))
        names = (*(f"$key{place}" for place in range(len(self.partition_by))), "$rows")
        keys, exchange = self.partition_by, Exchange(calc, self.partition_by)
        return WindowAggregate(exchange, self.window, keys, (rows,), names, self.time_column, False, self.columns)

    def _unnested(self, collected: WindowAggregate) -> PhysicalNode:
        """The rows, with the columns of their session appended."""
        keys, width, given = len(self.partition_by), len(collected.schema), self.input.schema
        nullable = Schema(tuple(field.as_nullable() for field in given))
        node = Correlate(collected, InputRef.of(collected.schema, keys), nullable)
        places = (*range(width, width + len(given)), *range(keys + 1, keys + 4))
        return Calc(node, tuple(InputRef.of(node.schema, place) for place in places), self.schema.names)


@conversion_rule(logical.WindowTableFunction)
def _window_function(function: logical.WindowTableFunction, context: ConversionContext) -> PhysicalNode:
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
