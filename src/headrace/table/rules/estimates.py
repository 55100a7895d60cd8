"""Estimates of the rows of relations and of the values in their columns, from the statistics of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from headrace.formats.statistics import Statistics
from headrace.operators.join.results import JoinType
from headrace.table.functions.table import is_deterministic
from headrace.table.logical import relations as logical
from headrace.table.logical.join_keys import is_equality, is_true
from headrace.table.logical.relations import (
    LogicalAggregate,
    LogicalJoin,
    LogicalSort,
    LogicalWatermarkAssigner,
    Relation,
    Scan,
)
from headrace.table.logical.scalars import Call, Cast, InputRef, Literal, Scalar, conjuncts, input_refs, moved

UNKNOWN_ROWS: Final = 1e8
"""The rows of a table without statistics."""
_OF_GROUPS: Final = 0.1
"""The number of different values among rows, where nothing is known of them."""
_EQUAL, _RANGE, _OTHER = 0.05, 0.4, 0.3
_SELECTIVITY: Final = {"LIKE": 0.05, "IS NULL": 0.05, "IS NOT NULL": 1.0, "<>": 0.9}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_FEWEST: Final = 1.0


@dataclass(frozen=True)
class ColumnEstimates:
    """Estimates of the values of a column.

    Attributes:
        distinct: the number of different values.
        low: the lowest value, as a number; None where it is not known, or no number.
        high: the highest value.
        is_known: whether the number of different values follows from statistics.
    """

    distinct: float
    low: float | None = None
    high: float | None = None
    is_known: bool = False

    def among(self, rows: float) -> ColumnEstimates:
        """The values in some of the rows."""
        return replace(self, distinct=max(min(self.distinct, rows), _FEWEST))


class Estimates:
    """Estimates of the relations of a statement.

    Args:
        statistics_of: the statistics of a table; None where nothing is known.
    """

    def __init__(self, statistics_of: Callable[[Scan], Statistics | None]) -> None:
        self._statistics_of = statistics_of
        self._rows: dict[Relation, float] = {}
        self._columns: dict[tuple[Relation, int], ColumnEstimates] = {}

    def are_known(self, relation: Relation) -> bool:
        """Return whether there are statistics of all tables that are read."""
        return all(self._statistics_of(node) is not None for node in relation.walk() if isinstance(node, Scan))

    def rows(self, relation: Relation) -> float:
        """The number of rows of a relation."""
        if relation not in self._rows:
            rule = next((_ROWS[kind] for kind in type(relation).__mro__ if kind in _ROWS), None)
            found = sum(map(self.rows, relation.inputs)) if rule is None else rule(self, relation)
            self._rows[relation] = max(found, _FEWEST)
        return self._rows[relation]

    def column(self, relation: Relation, index: int) -> ColumnEstimates:
        """The values of a column."""
        key = (relation, index)
        if key not in self._columns:
            rule = next((_COLUMNS[kind] for kind in type(relation).__mro__ if kind in _COLUMNS), None)
            found = None if rule is None else rule(self, relation, index)
            rows = self.rows(relation)
            self._columns[key] = ColumnEstimates(rows * _OF_GROUPS).among(rows) if found is None else found.among(rows)
        return self._columns[key]

    def distinct(self, relation: Relation, columns: Sequence[int]) -> float:
        """The number of different values of some columns together."""
        found = math.prod(self.column(relation, index).distinct for index in columns)
        return max(min(found, self.rows(relation)), _FEWEST)

    def selectivity(self, condition: Scalar, relation: Relation) -> float:
        """The part of the rows of a relation that meet a condition."""
        return _Conditions(lambda index: self.column(relation, index)).share(condition)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _of_scan(self, scan: Scan) -> float:
        known = self._statistics_of(scan)
        return UNKNOWN_ROWS if known is None else float(known.rows)

    def _of_filter(self, relation: logical.Filter) -> float:
        return self.rows(relation.input) * self.selectivity(relation.condition, relation.input)

    def _of_aggregate(self, relation: LogicalAggregate) -> float:
        return self.distinct(relation.input, relation.group) if relation.group else 1.0

    def _of_sort(self, relation: LogicalSort) -> float:
        rows = self.rows(relation.input)
        return rows if relation.limit is None else min(rows, relation.limit)

    def _of_join(self, join: LogicalJoin) -> float:
        left, right = self.rows(join.left), self.rows(join.right)
        share = self.share_of_pairs(join.left, join.right, conjuncts(join.condition))
        if join.kind in (JoinType.SEMI, JoinType.ANTI):
            found = left * min(share * right, 1.0)
            return found if join.kind is JoinType.SEMI else max(left - found, left * _OF_GROUPS)
        kept = (left if join.kind.right_is_optional else 0.0, right if join.kind.left_is_optional else 0.0)
        return max(left * right * share, *kept)

    def share_of_pairs(self, left: Relation, right: Relation, conditions: Sequence[Scalar]) -> float:
        """The part of the pairs of two relations' rows that meet conditions over the columns of both."""
        width = len(left.schema)
        pairs: list[tuple[int, int]] = []
        share = 1.0
        for each in conditions:
            operands = map(_without_casts, each.children)
            columns = [node.index for node in operands if isinstance(node, InputRef)]
            if is_equality(each, width) and len(columns) == 2:
                first, second = sorted(columns)
                pairs.append((first, second - width))
            elif not is_true(each):
                share *= self._share_of_both(each, left, right)
        if pairs:
            lefts, rights = zip(*pairs, strict=True)
            share /= max(self.distinct(left, lefts), self.distinct(right, rights))
        return share

    def _share_of_both(self, condition: Scalar, left: Relation, right: Relation) -> float:
        width = len(left.schema)
        reads = {index < width for index in input_refs(condition)}
        if reads == {False}:
            places = {index: index - width for index in input_refs(condition)}
            return self.selectivity(moved(condition, places), right)
        return self.selectivity(condition, left) if reads == {True} else _EQUAL if _is_equal(condition) else _OTHER

    # --- columns -----------------------------------------------------------------------------------------------------

    def _column_of_scan(self, scan: Scan, index: int) -> ColumnEstimates | None:
        known, field = self._statistics_of(scan), scan.columns[index]
        if known is None:
            return None
        found = known.column(field.name)
        low, high = (_number(value, field.type.arrow_type) for value in (found.lowest, found.highest))
        distinct = found.distinct
        if distinct is None and scan.primary_key == (index,):
            distinct = float(known.rows)
        if distinct is None and low is not None and high is not None and _is_whole(field.type.arrow_type):
            distinct = high - low + 1
        if distinct is None:
            return ColumnEstimates(known.rows * _OF_GROUPS, low, high)
        return ColumnEstimates(distinct, low, high, is_known=True)

    def _column_of_input(self, relation: Relation, index: int) -> ColumnEstimates | None:
        return self.column(relation.inputs[0], index)

    def _column_of_projection(self, project: logical.Project, index: int) -> ColumnEstimates | None:
        scalar = project.expressions[index]
        while isinstance(scalar, Cast):
            scalar = scalar.operand
        if isinstance(scalar, InputRef):
            return self.column(project.input, scalar.index)
        read = set(input_refs(scalar))
        if len(read) != 1 or not is_deterministic(scalar):
            return None
        return ColumnEstimates(self.column(project.input, read.pop()).distinct)  # it has no more values than the column

    def _column_of_aggregate(self, aggregate: LogicalAggregate, index: int) -> ColumnEstimates | None:
        return self.column(aggregate.input, aggregate.group[index]) if index < len(aggregate.group) else None

    def _column_of_join(self, join: LogicalJoin, index: int) -> ColumnEstimates | None:
        width = len(join.left.schema)
        return self.column(join.left, index) if index < width else self.column(join.right, index - width)


_ROWS: Final[dict[type[Relation], Callable[[Estimates, Any], float]]] = {
    Scan: Estimates._of_scan,
    logical.Values: lambda _, values: float(len(values.rows)),
    logical.Filter: Estimates._of_filter,
    LogicalAggregate: Estimates._of_aggregate,
    LogicalSort: Estimates._of_sort,
    LogicalJoin: Estimates._of_join,
}
_COLUMNS: Final[dict[type[Relation], Callable[[Estimates, Any, int], ColumnEstimates | None]]] = {
    Scan: Estimates._column_of_scan,
    logical.Filter: Estimates._column_of_input,
    LogicalSort: Estimates._column_of_input,
    LogicalWatermarkAssigner: Estimates._column_of_input,
    logical.Project: Estimates._column_of_projection,
    LogicalAggregate: Estimates._column_of_aggregate,
    LogicalJoin: Estimates._column_of_join,
}


@dataclass(frozen=True)
class _Conditions:
    """Estimates of how many rows meet conditions.

    Attributes:
        column: the values of a column.
    """

    column: Callable[[int], ColumnEstimates]

    def share(self, condition: Scalar) -> float:
        """The part of the rows that meet a condition."""
        if isinstance(condition, Literal):
            return 1.0 if condition.value else 0.0
        if not isinstance(condition, Call):
            return _OTHER
        match condition.function:
            case "AND":
                return self._of_all(conjuncts(condition))
            case "OR":
                return min(sum(map(self.share, condition.operands)), 1.0)
            case "NOT":
                return 1.0 - self.share(condition.operands[0])
        return self._compared(condition)

    def _of_all(self, conditions: Sequence[Scalar]) -> float:
        """The part that meets all conditions; two that bound the same column are one range of its values."""
        share, ranges = 1.0, dict[int, tuple[float, float]]()
        for each in conditions:
            bound = self._range(each)
            if bound is None:
                share *= self.share(each)
                continue
            index, low, high = bound
            before = ranges.get(index, (0.0, 1.0))
            ranges[index] = max(before[0], low), min(before[1], high)
        return share * math.prod(max(high - low, 0.0) for low, high in ranges.values())

    def _range(self, condition: Scalar) -> tuple[int, float, float] | None:
        """A column, and from where to where among its values a condition is true; None for other conditions."""
        found = _column_and_constant(condition)
        if found is None or found[1] not in ("<", "<=", ">", ">="):
            return None
        index, operator, literal = found
        column, value = self.column(index), _number(literal.value, literal.type.arrow_type)
        if column.low is None or column.high is None or value is None:
            return None
        place = (value - column.low) / max(column.high - column.low, 1e-9)
        place = min(max(place, 0.0), 1.0)
        return (index, 0.0, place) if operator in ("<", "<=") else (index, place, 1.0)

    def _compared(self, call: Call) -> float:
        bound = self._range(call)
        if bound is not None:
            return bound[2] - bound[1]
        columns = [each.index for each in call.operands if isinstance(each, InputRef)]
        if _is_equal(call) and columns:
            known = [column for column in map(self.column, columns) if column.is_known]
            return 1.0 / max(column.distinct for column in known) if known else _EQUAL
        if call.function in ("<", "<=", ">", ">="):
            return _RANGE
        return _SELECTIVITY.get(call.function, _OTHER)


def _is_equal(condition: Scalar) -> bool:
    return isinstance(condition, Call) and condition.function in ("=", "IS NOT DISTINCT FROM")


def _column_and_constant(condition: Scalar) -> tuple[int, str, Literal] | None:
    """A column, the operator and the constant of a comparison, with the column on the left."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    left, right = (_without_casts(each) for each in condition.operands)
    if isinstance(left, InputRef) and isinstance(right, Literal):
        return left.index, condition.function, right
    if isinstance(left, Literal) and isinstance(right, InputRef):
        return right.index, _MIRRORED[condition.function], left
    return None


def _without_casts(scalar: Scalar) -> Scalar:
    while isinstance(scalar, Cast) and scalar.is_implicit:
        scalar = scalar.operand
    return scalar


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind))


def _number(value: Any, kind: pa.DataType) -> float | None:
    """A value of a column or a constant as a number, by which values of its type are ordered; None for others."""
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return since.total_seconds() * _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else None
    return float(value.toordinal() - _EPOCH) if isinstance(value, date) else None


_EPOCH: Final = date(1970, 1, 1).toordinal()
_PER_SECOND: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
