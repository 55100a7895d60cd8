"""Plans of GROUP BY: by columns, by windows, and by grouping sets, for which rows are expanded.

Aggregates of all rows of a table are not computed where files have them. Plans show some calls by simpler ones with an
expression above, as Flink's do: deviations, and averages beside sums. What is computed are the calls as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final

from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.table.functions.types import BIGINT, DOUBLE, INT, STRING
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalAggregate, Relation, Scan
from headrace.table.logical.scalars import BOOLEAN, AggregateCall, Branch, Call, Case, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import unique_names
from headrace.table.options import AGG_PHASES, AGGREGATE_PUSHDOWN, DISTINCT_BUCKETS, DISTINCT_SPLIT
from headrace.table.physical.aggregates import GroupAggregate, operation
from headrace.table.physical.basic import Calc, Exchange, Expand, ValuesScan, projected
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted, statistics_of
from headrace.table.physical.joins import without_times
from headrace.table.physical.node import PhysicalNode, with_unique_names
from headrace.table.physical.split_aggregates import split_aggregate
from headrace.table.physical.translation import record_type
from headrace.table.physical.window_aggregates import in_one_phase, in_two_phases, window_aggregate
from headrace.table.physical.windows import window_columns
from headrace.table.rules.conditions import either

_GROUPING_FUNCTIONS: Final = frozenset(("GROUPING", "GROUPING_ID"))


_MakeAggregate = Callable[[PhysicalNode, tuple[int, ...], tuple[AggregateCall, ...], tuple[str, ...]], PhysicalNode]
"""Creates the aggregating node from its input, the grouping columns, the calls, and the names of all columns."""


@conversion_rule(LogicalAggregate)
def _aggregate(aggregate: LogicalAggregate, context: ConversionContext) -> PhysicalNode:
    ordered = next((call.function for call in aggregate.calls if call.order_by), None)
    if ordered is not None:
        raise PlanningError(f"{ordered}(... ORDER BY ...) cannot be executed yet: order the rows of a subquery")
    known = _known_aggregate(aggregate, context)
    if known is not None:
        return known
    source = converted(aggregate.input, context)
    make: _MakeAggregate = partial(_grouped, context, _ttl(aggregate.hints))
    if context.is_shown:
        make = partial(_reduced_or_whole, make)
    for call in aggregate.calls:
        _check(call, source, is_batch=context.is_batch)
    if any(len(call.operands) > 1 and call.function == "COUNT" for call in aggregate.calls):
        raise PlanningError("COUNT of several columns cannot be executed: count one, or DISTINCT ROW(...) of them")
    if _has_grouping(aggregate):
        return _with_grouping_sets(aggregate, source, make, INT.not_null() if context.is_shown else _BIGINT)
    node = make(source, aggregate.group, aggregate.calls, aggregate.names)
    is_small = isinstance(node, GroupAggregate) and _has_few_groups(aggregate, context)
    return replace(node, has_few_groups=True) if is_small and isinstance(node, GroupAggregate) else node


_FEW: Final = 100_000.0
"""The number of groups up to which one task is faster than several."""


def _has_few_groups(aggregate: LogicalAggregate, context: ConversionContext) -> bool:
    estimates = context.estimates
    return estimates is not None and estimates.are_known(aggregate) and estimates.rows(aggregate) <= _FEW


def _check(call: AggregateCall, source: PhysicalNode, *, is_batch: bool) -> None:
    """Refuse a call that no operator can compute.

    Raises:
        PlanningError: when there is none.
    """
    if call.function == "APPROX_COUNT_DISTINCT" and not is_batch:
        raise PlanningError("APPROX_COUNT_DISTINCT is not supported in streaming mode: write COUNT(DISTINCT ...)")
    if call.function in _GROUPING_FUNCTIONS:
        return
    try:
        operation(call, "result", source).bind(record_type(source.schema))
    except UnsupportedOperationError as error:
        raise PlanningError(str(error)) from error


def _ttl(hints: Sequence[logical.Hint]) -> str | None:
    """The time to live from the hint ``STATE_TTL`` of the only input; None without the hint."""
    found = [value for hint in hints if hint.name == "STATE_TTL" for _, value in hint.options]
    return found[-1] if found else None


def _grouped(
    context: ConversionContext,
    ttl: str | None,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
) -> PhysicalNode:
    """The node that aggregates: by windows where the rows have some, in two levels if the session is configured so."""
    settings, is_streaming = context.settings, not context.is_batch
    is_whole = settings.get(AGG_PHASES) == "ONE_PHASE"
    arranged = in_one_phase if is_whole else in_two_phases
    if is_streaming and (windowed := window_aggregate(source, group, calls, names, arranged)) is not None:
        return windowed
    source = without_times(source)
    if is_streaming and settings.get(DISTINCT_SPLIT):
        split = split_aggregate(source, group, calls, buckets=settings.get(DISTINCT_BUCKETS), ttl=ttl)
        if split is not None:
            return split
    is_whole = context.is_shown and is_whole
    return GroupAggregate(Exchange(source, group), group, calls, names, ttl, in_one_phase=is_whole)


_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_UNKNOWN: Final = object()
_BIGINT: Final = BIGINT.not_null()


def _known_aggregate(aggregate: LogicalAggregate, context: ConversionContext) -> ValuesScan | None:
    """The row of an aggregate over a whole table; None where it has to be computed."""
    pushes = context.estimates is not None and context.settings.get(AGGREGATE_PUSHDOWN)
    if not pushes or aggregate.group or not aggregate.is_simple:
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


_DEVIATIONS: Final = frozenset(("STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP", "VAR_SAMP", "VARIANCE"))
_REDUCED: Final = _DEVIATIONS | {"AVG", "SUM"}
_WELFORD: Final = "$WELFORD_M2$1"
_JSON: Final = ("JSON_ARRAYAGG", "JSON_OBJECTAGG")


def _reduced_or_whole(
    make: _MakeAggregate,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
) -> PhysicalNode:
    """The plan of an aggregate with its calls as plans show them."""
    source, calls = _with_json_arguments(source, calls)
    calls = tuple(_as_sum(call, source) for call in calls)
    summed = frozenset(call.operands for call in calls if call.function == "SUM" and not call.is_distinct)
    reduced = _Reduced(source, group, names[len(group) :], summed)
    results = [reduced.result(call, at) for at, call in enumerate(calls)]
    if len(reduced.calls) >= len(calls) and not any(call.function in _DEVIATIONS for call in calls):
        return make(source, group, calls, names)
    labels = (*names[: len(group)], *reduced.names)
    node = make(source, group, tuple(reduced.calls), labels)
    keys = InputRef.all_of(node.schema)[: len(group)]
    return projected(node, (*keys, *results), unique_names(names))


@dataclass
class _Reduced:
    """The calls that compute others, each once.

    Attributes:
        source: the rows.
        group: the grouping columns.
        given: the names of the results as they are written.
        summed: the operands of sums.
    """

    source: PhysicalNode
    group: tuple[int, ...]
    given: Sequence[str]
    summed: frozenset[tuple[int, ...]]
    calls: list[AggregateCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def result(self, call: AggregateCall, place: int) -> Scalar:
        """The result of a call, over the columns of the simpler ones."""
        if call.is_distinct or call.function not in _REDUCED:
            return self._add(call, self.given[place])
        if call.function == "SUM":
            return self._sum(call, self.given[place])
        count = replace(call, function="COUNT", type=_BIGINT, name=None)
        if not self.source.schema.types[call.operands[0]].nullable:
            count = replace(count, operands=())
        if call.function == "AVG":
            total = replace(call, function="SUM", type=self._sum_type(call), name=None)
            found = self._sum(total, None) if call.operands in self.summed else self._add(total)
            return _quotient(found, self._add(count), call.type)
        squares = self._add(replace(call, function=_WELFORD, type=DOUBLE, name=None))
        return _deviation(call, squares, self._add(count))

    def _sum(self, call: AggregateCall, name: str | None) -> Scalar:
        kind = call.type
        total = self._add(replace(call, function="$SUM0", type=kind.not_null(), name=None), name)
        if not kind.nullable:
            return total
        count = self._add(replace(call, function="COUNT", type=_BIGINT, name=None))
        return Case((Branch(_equal(count, 0), Literal(None, type=kind)),), total, type=kind)

    def _sum_type(self, call: AggregateCall) -> LogicalType:
        kind = replace(self.source.schema.types[call.operands[0]], nullable=call.type.nullable)
        is_decimal = isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL
        return replace(kind, size=38) if is_decimal and isinstance(kind, AtomicType) else kind

    def _add(self, call: AggregateCall, name: str | None = None) -> Scalar:
        """The column of a call, which has a generated name if it has none yet."""
        found = next((at for at, each in enumerate(self.calls) if _is_same(each, call)), None)
        if found is None:
            found = len(self.calls)
            self.calls.append(call)
            self.names.append(name or f"$f{self._keys + found}")
        return InputRef(len(self.group) + found, type=self.calls[found].type, time=call.time)

    @property
    def _keys(self) -> int:
        """The number of keys beside a window."""
        columns = window_columns(self.source)
        places = () if columns is None else columns.places
        return sum(index not in places for index in self.group)


def _as_sum(call: AggregateCall, source: PhysicalNode) -> AggregateCall:
    """A call of ``SUM`` of a computed column, which plans do not show as ``$SUM0`` if the column is never NULL."""
    if call.function != "SUM" or not isinstance(source, Calc):
        return call
    is_computed = not isinstance(source.expressions[call.operands[0]], InputRef)
    is_of_function = source.input.title == "WindowTableFunction"
    return replace(call, type=call.type.as_nullable()) if is_computed or is_of_function else call


def _is_same(one: AggregateCall, other: AggregateCall) -> bool:
    return replace(one, name=None, type=other.type) == replace(other, name=None)


def _equal(scalar: Scalar, number: int) -> Scalar:
    return Call("=", (scalar, _literal(number)), type=BOOLEAN.not_null())


def _literal(value: int) -> Literal:
    return Literal(value, type=_BIGINT)


def _quotient(total: Scalar, count: Scalar, kind: LogicalType) -> Scalar:
    if isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
        return Call("/", (Cast(total, type=kind), count), type=kind)
    found = Call("/", (total, count), type=kind)
    is_narrow = isinstance(kind, AtomicType) and kind.root in _INTEGERS and kind.root is not TypeRoot.BIGINT
    return Cast(found, type=kind) if is_narrow else found


def _deviation(call: AggregateCall, total: Scalar, count: Scalar) -> Scalar:
    """The variance of values from the sum of their squared distances, or its root."""
    divisor = count
    if not call.function.endswith("_POP"):
        less = Call("-", (count, _literal(1)), type=BIGINT)
        divisor = Case((Branch(_equal(count, 1), Literal(None, type=BIGINT)),), less, type=BIGINT)
    found: Scalar = Call("/", (total, divisor), type=DOUBLE)
    if call.function.startswith("STDDEV"):
        half = Literal(Decimal("0.5"), type=AtomicType(TypeRoot.DECIMAL, 2, 1, nullable=False))
        found = Call("POWER", (found, half), type=DOUBLE)
    return found if call.type.as_nullable() == DOUBLE else Cast(found, type=call.type)


def _with_json_arguments(
    source: PhysicalNode, calls: tuple[AggregateCall, ...]
) -> tuple[PhysicalNode, tuple[AggregateCall, ...]]:
    """Calls that make JSON, over columns that are JSON already."""
    columns: list[Scalar] = list(InputRef.all_of(source.schema))
    names, made = list(source.schema.names), []
    for call in calls:
        operands = call.operands
        if call.function in _JSON:
            *keys, value = operands
            text = Call("JSON_STRING", (columns[value],), type=STRING)
            if text not in columns:
                columns.append(text)
                names.append(f"$f{len(names)}")
            operands = (*keys, columns.index(text))
        made.append(replace(call, operands=operands))
    is_same = len(columns) == len(source.schema)
    return (source if is_same else projected(source, columns, names)), tuple(made)


def _has_grouping(aggregate: LogicalAggregate) -> bool:
    """Return whether an aggregate has several grouping sets, or calls ``GROUPING``."""
    return not aggregate.is_simple or any(call.function in _GROUPING_FUNCTIONS for call in aggregate.calls)


def _with_grouping_sets(
    aggregate: LogicalAggregate, source: PhysicalNode, make: _MakeAggregate, kind: LogicalType = _BIGINT
) -> PhysicalNode:
    """The plan of an aggregate with grouping sets over its input.

    Args:
        aggregate: the aggregate.
        source: its input.
        make: makes the node that aggregates.
        kind: the type of the number of a grouping set in conditions.
    """
    group, width = aggregate.group, len(source.schema)
    # Arguments that are also grouping columns are copied, since expansion sets grouping columns to null.
    calls = [call for call in aggregate.calls if call.function not in _GROUPING_FUNCTIONS]
    looked_at = {index for call in calls for index in (*call.operands, call.filter) if index is not None}
    kept = {index: width + place for place, index in enumerate(sorted(looked_at.intersection(group)))}
    places = {index: index for index in range(width)} | kept
    projections = tuple(
        (*(None if index in group and index not in keys else index for index in range(width)), *kept)
        for keys in aggregate.grouping_sets
    )
    names = unique_names([*source.schema.names, *(source.schema.names[index] for index in kept), "$e"])
    expand = Expand(source, projections, tuple(_number(group, keys) for keys in aggregate.grouping_sets), names)
    number = width + len(kept)
    called = aggregate.names[len(group) :]
    named = [
        name for call, name in zip(aggregate.calls, called, strict=True) if call.function not in _GROUPING_FUNCTIONS
    ]
    node = make(
        expand,
        (*group, number),
        tuple(call.moved(places) for call in calls),
        (*aggregate.names[: len(group)], "$e", *named),
    )
    return _with_grouping_columns(aggregate, node, kind)


def _number(group: tuple[int, ...], keys: tuple[int, ...]) -> int:
    """A number with a bit for each column that a grouping set leaves out; the first column's is the highest."""
    return sum(1 << (len(group) - 1 - place) for place, index in enumerate(group) if index not in keys)


def _with_grouping_columns(aggregate: LogicalAggregate, node: PhysicalNode, kind: LogicalType) -> PhysicalNode:
    """The columns of the aggregate, from a node that has the grouping set's number after the keys."""
    group = aggregate.group
    columns = node.schema
    number = InputRef(len(group), type=kind)
    expressions: list[Scalar] = [
        InputRef(index, type=aggregate.schema[index].type, time=columns[index].time) for index in range(len(group))
    ]
    place = len(group) + 1
    for call in aggregate.calls:
        if call.function in _GROUPING_FUNCTIONS:
            expressions.append(_grouping(aggregate, call, number))
        else:
            expressions.append(InputRef.of(columns, place))
            place += 1
    return projected(node, expressions, unique_names(aggregate.names))


def _grouping(aggregate: LogicalAggregate, call: AggregateCall, number: Scalar) -> Scalar:
    """The value of ``GROUPING``: a bit for each operand, set where the grouping set leaves it out."""
    values = {_number(aggregate.group, keys): _number(call.operands, keys) for keys in aggregate.grouping_sets}
    *others, last = dict.fromkeys(values.values())
    branches = [
        Branch(either([_equal(number, key) for key in values if values[key] == value]), _literal(value))
        for value in others
    ]
    return Case(tuple(branches), _literal(last), type=_BIGINT) if branches else _literal(last)
