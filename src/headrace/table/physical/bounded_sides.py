"""Plans that a task computes for itself, whole: the build sides of broadcast joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.operators.aggregates.calls.nothing import accumulators_of_nothing
from headrace.operators.join.bounded_rows import (
    AggregatedRows,
    BoundedRows,
    CalculatedRows,
    ConstantRows,
    SourceRows,
    UnitedRows,
)
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.table.functions.definitions import USER_FUNCTION
from headrace.table.logical.scalars import Call, Scalar
from headrace.table.physical.aggregates import GroupAggregate, operations
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, Union, ValuesScan
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.times import UsedTimes
from headrace.table.physical.translation import GraphBuilder, column, compiled, compiled_all, key_of, record_type

_CALLS: Final = frozenset(("COUNT", "SUM", "$SUM0", "SUM0", "AVG", "MIN", "MAX", "SINGLE_VALUE"))
"""Aggregates that need no state beside their accumulators, and do not depend on the order of rows."""


def can_be_computed(node: PhysicalNode) -> bool:
    """Return whether a task can compute the rows of a plan for itself."""
    rule = next((each for kind, each in _RULES.items() if type(node) is kind), None)
    return rule is not None and rule(node) and all(map(can_be_computed, node.inputs))


def _has_plain_source(scan: TableSourceScan) -> bool:
    is_whole = scan.source.can_be_read_whole and not scan.scan.expectations
    return is_whole and scan.source.is_bounded and scan.source.changelog_mode.is_insert_only


def _is_plain(calc: Calc) -> bool:
    return are_plain(calc.expressions if calc.condition is None else (*calc.expressions, calc.condition))


def are_plain(scalars: Sequence[Scalar]) -> bool:
    """Return whether scalars have the same values in every task, and nothing in them has to be opened."""
    return not UsedTimes.of(scalars).times and not any(map(_calls_user, scalars))


def _calls_user(scalar: Scalar) -> bool:
    return any(isinstance(node, Call) and node.option(USER_FUNCTION) is not None for node in scalar.walk())


def _has_plain_calls(node: GroupAggregate) -> bool:
    return all(call.function in _CALLS and not call.is_distinct for call in node.calls)


def _always(_: PhysicalNode) -> bool:
    return True


_RULES: Final[dict[type[PhysicalNode], Callable[[Any], bool]]] = {
    TableSourceScan: _has_plain_source,
    ValuesScan: _always,
    Calc: _is_plain,
    Exchange: _always,
    Union: _always,
    GroupAggregate: _has_plain_calls,
}


def register_join(kind: type[PhysicalNode], can_be: Callable[[Any], bool], rows: Rule) -> None:
    """Add a kind of joins."""
    _RULES[kind], _ROWS[kind] = can_be, rows


# --- rows ------------------------------------------------------------------------------------------------------------


def rows_of(node: PhysicalNode, builder: GraphBuilder) -> BoundedRows:
    """The rows of a plan that can be computed so."""
    return _ROWS[type(node)](node, builder)


def _of_scan(scan: TableSourceScan, builder: GraphBuilder) -> BoundedRows:
    return SourceRows.of(scan.created_source(), builder.settings.storage_options(), ".".join(scan.scan.path))


def _of_values(values: ValuesScan, _: GraphBuilder) -> BoundedRows:
    return ConstantRows(record_type(values.schema), values.columns_of_rows())


def _of_calc(calc: Calc, builder: GraphBuilder) -> BoundedRows:
    given, rows = calc.input.schema, rows_of(calc.input, builder)
    condition = None if calc.condition is None else compiled(calc.condition, given, builder)
    if calc.is_trivial and len(calc.expressions) == len(given):
        return CalculatedRows(rows.type, rows, condition, None)
    columns = tuple(compiled_all(calc.expressions, given, builder.settings))
    return CalculatedRows(record_type(calc.schema), rows, condition, columns)


def _of_exchange(exchange: Exchange, builder: GraphBuilder) -> BoundedRows:
    return rows_of(exchange.input, builder)


def _of_union(union: Union, builder: GraphBuilder) -> BoundedRows:
    kind = record_type(union.schema)
    return UnitedRows(kind, tuple(_as(arm, kind, builder) for arm in union.arms))


def _as(node: PhysicalNode, kind: Any, builder: GraphBuilder) -> BoundedRows:
    rows = rows_of(node, builder)
    if rows.type == kind:
        return rows
    return CalculatedRows(kind, rows, None, tuple(column(node.schema, place) for place in range(len(node.schema))))


def _of_aggregate(node: GroupAggregate, builder: GraphBuilder) -> BoundedRows:
    given, rows = node.input.schema, rows_of(node.input, builder)
    names = node.schema.names[: len(node.group)]
    key = key_of(given, node.group, names)
    calls = operations(node.calls, node.schema.names[len(node.group) :], node.input)
    layout = ColumnarWindowLayout.of(rows.type, key.codec, calls, key.fields, key.names, ())
    nothing = None if node.group else tuple(accumulators_of_nothing(layout.aggregators, rows.type, 1))
    assert key.expression is not None, "keys of tables are expressions"
    return AggregatedRows(layout.output_type, rows, key.expression, layout, nothing)


Rule = Callable[[Any, GraphBuilder], BoundedRows]

_ROWS: Final[dict[type[PhysicalNode], Rule]] = {
    TableSourceScan: _of_scan,
    ValuesScan: _of_values,
    Calc: _of_calc,
    Exchange: _of_exchange,
    Union: _of_union,
    GroupAggregate: _of_aggregate,
}
