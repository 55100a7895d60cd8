"""Plans of GROUP BY: by columns, by windows, and by grouping sets, for which rows are expanded.

Aggregates of all rows of a table are not computed where files have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any, Final

from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.table.functions.types import BIGINT
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import LogicalAggregate, Relation, Scan
from headrace.table.logical.scalars import BOOLEAN, AggregateCall, Branch, Call, Case, InputRef, Literal, Scalar
from headrace.table.logical.schema import unique_names
from headrace.table.options import AGG_PHASES, AGGREGATE_PUSHDOWN, DISTINCT_BUCKETS, DISTINCT_SPLIT
from headrace.table.physical.aggregates import GroupAggregate, operation
from headrace.table.physical.basic import Exchange, Expand, ValuesScan, projected
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted, statistics_of
from headrace.table.physical.joins import without_times
from headrace.table.physical.node import PhysicalNode, with_unique_names
from headrace.table.physical.split_aggregates import split_aggregate
from headrace.table.physical.translation import record_type
from headrace.table.physical.window_aggregates import in_one_phase, in_two_phases, window_aggregate
from headrace.table.rules.conditions import either

_GROUPING_FUNCTIONS: Final = frozenset(("GROUPING", "GROUPING_ID"))


MakeAggregate = Callable[[PhysicalNode, tuple[int, ...], tuple[AggregateCall, ...], tuple[str, ...]], PhysicalNode]
"""Creates the aggregating node from its input, the grouping columns, the calls, and the names of all columns."""


_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_UNKNOWN: Final = object()
_BIGINT: Final = BIGINT.not_null()


@conversion_rule(LogicalAggregate)
def _aggregate(aggregate: LogicalAggregate, context: ConversionContext) -> PhysicalNode:
    return converted_aggregate(aggregate, context, maker_of(aggregate, context))


def converted_aggregate(
    aggregate: LogicalAggregate, context: ConversionContext, make: MakeAggregate, kind: LogicalType = _BIGINT
) -> PhysicalNode:
    """The plan of an aggregate.

    Args:
        aggregate: the aggregate.
        context: the context of the conversion.
        make: makes the node that aggregates.
        kind: the type of the number of a grouping set in conditions.

    Raises:
        PlanningError: when no operator can compute it.
    """
    ordered = next((call.function for call in aggregate.calls if call.order_by), None)
    if ordered is not None:
        raise PlanningError(f"{ordered}(... ORDER BY ...) cannot be executed yet: order the rows of a subquery")
    known = _known_aggregate(aggregate, context)
    if known is not None:
        return known
    source = converted(aggregate.input, context)
    for call in aggregate.calls:
        _check(call, source, is_batch=context.is_batch)
    if any(len(call.operands) > 1 and call.function == "COUNT" for call in aggregate.calls):
        raise PlanningError("COUNT of several columns cannot be executed: count one, or DISTINCT ROW(...) of them")
    if _has_grouping(aggregate):
        return _with_grouping_sets(aggregate, source, make, kind)
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


def maker_of(aggregate: LogicalAggregate, context: ConversionContext, *, shows_phases: bool = False) -> MakeAggregate:
    """The function that creates the aggregating node; with ``shows_phases`` the node shows its only phase."""
    return partial(_grouped, context, _ttl(aggregate.hints), shows_phases=shows_phases)


def _ttl(hints: Sequence[logical.Hint]) -> str | None:
    """The time to live from the hint ``STATE_TTL`` of the only input; None without the hint."""
    found = [value for hint in hints if hint.name == "STATE_TTL" for _, value in hint.options]
    return found[0] if found else None


def _grouped(
    context: ConversionContext,
    ttl: str | None,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    *,
    shows_phases: bool,
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
    return GroupAggregate(Exchange(source, group), group, calls, names, ttl, in_one_phase=shows_phases and is_whole)


def _known_aggregate(aggregate: LogicalAggregate, context: ConversionContext) -> ValuesScan | None:
    """The row of an aggregate over a whole table; None where it has to be computed."""
    pushes = context.estimates is not None and context.settings.get(AGGREGATE_PUSHDOWN)
    if not pushes or context.is_kept or aggregate.group or not aggregate.is_simple:
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


def equal(scalar: Scalar, number: int) -> Scalar:
    """The comparison of a scalar with a number."""
    return Call("=", (scalar, literal(number)), type=BOOLEAN.not_null())


def literal(value: int) -> Literal:
    """A literal ``BIGINT``."""
    return Literal(value, type=_BIGINT)


def _has_grouping(aggregate: LogicalAggregate) -> bool:
    """Return whether an aggregate has several grouping sets, or calls ``GROUPING``."""
    return not aggregate.is_simple or any(call.function in _GROUPING_FUNCTIONS for call in aggregate.calls)


def _with_grouping_sets(
    aggregate: LogicalAggregate, source: PhysicalNode, make: MakeAggregate, kind: LogicalType
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
        Branch(either([equal(number, key) for key in values if values[key] == value]), literal(value))
        for value in others
    ]
    return Case(tuple(branches), literal(last), type=_BIGINT) if branches else literal(last)
