"""Aggregates of all rows of a table that are known without reading it: counts, and lowest and highest values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import Relation, Scan
from headrace.table.logical.scalars import AggregateCall, InputRef, Literal
from headrace.table.options import AGGREGATE_PUSHDOWN
from headrace.table.physical.basic import ValuesScan
from headrace.table.physical.conversion import ConversionContext, statistics_of
from headrace.table.physical.node import with_unique_names

_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_UNKNOWN: Final = object()


def known_aggregate(aggregate: logical.Aggregate, context: ConversionContext) -> ValuesScan | None:
    """The row of an aggregate over a whole table; None where it has to be computed."""
    is_asked = context.estimates is not None and context.settings.get(AGGREGATE_PUSHDOWN)
    if not is_asked or aggregate.group or not aggregate.is_simple:
        return None
    found = _scanned(aggregate.input, range(len(aggregate.input.schema)))
    if found is None:
        return None
    scan, places = found
    known = statistics_of(scan, context)
    if known is None or not known.is_exact:
        return None
    values = [_value(call, scan, places, known) for call in aggregate.calls]
    if _UNKNOWN in values:
        return None
    row = tuple(Literal(value, type=call.type) for value, call in zip(values, aggregate.calls, strict=True))
    return ValuesScan((row,), with_unique_names(aggregate.schema))


def _scanned(relation: Relation, columns: Sequence[int]) -> tuple[Scan, list[int | None]] | None:
    """The table whose rows, all of them, a relation has, and which of its columns some columns are."""
    places: list[int | None] = list(columns)
    while isinstance(relation, logical.Project):
        below = [None if place is None else relation.expressions[place] for place in places]
        places = [each.index if isinstance(each, InputRef) else None for each in below]
        relation = relation.input
    is_whole = isinstance(relation, Scan) and not (relation.filters or relation.expectations or relation.hints)
    if not is_whole or not isinstance(relation, Scan) or relation.limit is not None or relation.partitions is not None:
        return None
    return relation, places


def _value(call: AggregateCall, scan: Scan, places: Sequence[int | None], known: Statistics) -> Any:
    """The value of a call; ``_UNKNOWN`` where rows have to be read for it."""
    if call.is_distinct or call.filter is not None:
        return _UNKNOWN
    if call.function == "COUNT" and not call.operands:
        return known.rows
    place = places[call.operands[0]] if len(call.operands) == 1 else None
    if place is None:
        return _UNKNOWN
    field = scan.columns[place]
    column = known.column(field.name)
    if call.function == "COUNT":
        return _UNKNOWN if column.nulls is None else known.rows - column.nulls
    return _extreme(call.function, column, field.type)


def _extreme(function: str, column: ColumnStatistics, kind: LogicalType) -> Any:
    """The lowest or highest value of a column of integers or days; others may be cut off in files."""
    found = {"MIN": column.lowest, "MAX": column.highest}.get(function)
    root = kind.root if isinstance(kind, AtomicType) else None
    is_integer = root in _INTEGERS and isinstance(found, int) and not isinstance(found, bool)
    return found if is_integer or (root is TypeRoot.DATE and type(found) is date) else _UNKNOWN
