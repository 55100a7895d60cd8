"""Plans of GROUP BY: by columns, by windows, and by grouping sets, for which rows are expanded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import LogicalType, bigint
from headrace.table.functions.types import INT
from headrace.table.logical import relations as logical
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.scalars import BOOLEAN, AggregateCall, Branch, Call, Case, InputRef, Literal, Scalar
from headrace.table.logical.schema import unique_names
from headrace.table.options import AGG_PHASES, DISTINCT_BUCKETS, DISTINCT_SPLIT
from headrace.table.physical.aggregates import GroupAggregate, operation
from headrace.table.physical.basic import Exchange, Expand
from headrace.table.physical.calcs import projected
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.joins import without_times
from headrace.table.physical.known_aggregates import known_aggregate
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.reduced_aggregates import MakeAggregate, reduced_or_whole
from headrace.table.physical.split_aggregates import split_aggregate
from headrace.table.physical.translation import record_type
from headrace.table.physical.window_aggregates import Arranged, in_one_phase, in_two_phases, window_aggregate
from headrace.table.rules.conditions import either

_BIGINT: Final = bigint().not_null()
GROUPING_FUNCTIONS: Final = frozenset(("GROUPING", "GROUPING_ID"))


def has_grouping(aggregate: logical.Aggregate) -> bool:
    """Return whether an aggregate has several grouping sets, or calls ``GROUPING``."""
    return not aggregate.is_simple or any(call.function in GROUPING_FUNCTIONS for call in aggregate.calls)


def with_grouping_sets(
    aggregate: logical.Aggregate, source: PhysicalNode, make: MakeAggregate, kind: LogicalType = _BIGINT
) -> PhysicalNode:
    """The plan of an aggregate with grouping sets over its input.

    Args:
        aggregate: the aggregate.
        source: its input.
        make: makes the node that aggregates.
        kind: the type by which conditions know the number of a grouping set.
    """
    group, width = aggregate.group, len(source.schema)
    # Arguments that are also grouping columns are copied, since expansion sets grouping columns to null.
    calls = [call for call in aggregate.calls if call.function not in GROUPING_FUNCTIONS]
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
        name for call, name in zip(aggregate.calls, called, strict=True) if call.function not in GROUPING_FUNCTIONS
    ]
    node = make(
        expand,
        (*group, number),
        tuple(call.moved(places) for call in calls),
        (*aggregate.names[: len(group)], "$e", *named),
    )
    return _shown(aggregate, node, kind)


def _number(group: tuple[int, ...], keys: tuple[int, ...]) -> int:
    """A number with a bit for each column that a grouping set leaves out; the first column's is the highest."""
    return sum(1 << (len(group) - 1 - place) for place, index in enumerate(group) if index not in keys)


def _shown(aggregate: logical.Aggregate, node: PhysicalNode, kind: LogicalType) -> PhysicalNode:
    """The columns of the aggregate, from a node that has the grouping set's number after the keys."""
    group = aggregate.group
    columns = node.schema
    number = InputRef(len(group), type=kind)
    expressions: list[Scalar] = [
        InputRef(index, type=aggregate.schema[index].type, time=columns[index].time) for index in range(len(group))
    ]
    place = len(group) + 1
    for call in aggregate.calls:
        if call.function in GROUPING_FUNCTIONS:
            expressions.append(_grouping(aggregate, call, number))
        else:
            expressions.append(InputRef.of(columns, place))
            place += 1
    return projected(node, expressions, unique_names(aggregate.names))


def _grouping(aggregate: logical.Aggregate, call: AggregateCall, number: Scalar) -> Scalar:
    """The value of ``GROUPING``: a bit for each operand, set where the grouping set leaves it out."""
    values = {_number(aggregate.group, keys): _number(call.operands, keys) for keys in aggregate.grouping_sets}
    *others, last = dict.fromkeys(values.values())
    branches = [
        Branch(either([_is_number(number, key) for key in values if values[key] == value]), _literal(value))
        for value in others
    ]
    return Case(tuple(branches), _literal(last), type=_BIGINT) if branches else _literal(last)


def _is_number(number: Scalar, key: int) -> Scalar:
    return Call("=", (number, _literal(key)), type=BOOLEAN.not_null())


def _literal(value: int) -> Literal:
    return Literal(value, type=_BIGINT)


@conversion_rule(logical.Aggregate)
def _aggregate(aggregate: logical.Aggregate, context: ConversionContext) -> PhysicalNode:
    ordered = next((call.function for call in aggregate.calls if call.order_by), None)
    if ordered is not None:
        raise PlanningError(f"{ordered}(... ORDER BY ...) cannot be executed yet: order the rows of a subquery")
    known = known_aggregate(aggregate, context)
    if known is not None:
        return known
    source = converted(aggregate.input, context)
    ttl = _ttl(aggregate.hints)
    is_whole = context.settings.get(AGG_PHASES) == "ONE_PHASE"
    make: MakeAggregate = partial(_grouped, ttl, in_one_phase=context.is_shown and is_whole)
    if not context.is_batch:
        if context.settings.get(DISTINCT_SPLIT):
            make = partial(_split_or, make, ttl, context.settings.get(DISTINCT_BUCKETS))
        make = partial(_windowed_or, make, in_one_phase if is_whole else in_two_phases)
    if context.is_shown:
        make = partial(reduced_or_whole, make)
    for call in aggregate.calls:
        _check(call, source, is_batch=context.is_batch)
    if any(len(call.operands) > 1 and call.function == "COUNT" for call in aggregate.calls):
        raise PlanningError("COUNT of several columns cannot be executed: count one, or DISTINCT ROW(...) of them")
    if has_grouping(aggregate):
        return with_grouping_sets(aggregate, source, make, INT.not_null() if context.is_shown else _BIGINT)
    node = make(source, aggregate.group, aggregate.calls, aggregate.names)
    is_small = isinstance(node, GroupAggregate) and _has_few_groups(aggregate, context)
    return replace(node, has_few_groups=True) if is_small and isinstance(node, GroupAggregate) else node


_FEW: Final = 100_000.0
"""The number of groups up to which one task is faster than several."""


def _has_few_groups(aggregate: logical.Aggregate, context: ConversionContext) -> bool:
    estimates = context.estimates
    return estimates is not None and estimates.are_known(aggregate) and estimates.rows(aggregate) <= _FEW


def _check(call: AggregateCall, source: PhysicalNode, *, is_batch: bool) -> None:
    """Refuse a call that no operator can compute.

    Raises:
        PlanningError: when there is none.
    """
    if call.function == "APPROX_COUNT_DISTINCT" and not is_batch:
        raise PlanningError("APPROX_COUNT_DISTINCT is not supported in streaming mode: write COUNT(DISTINCT ...)")
    if call.function in GROUPING_FUNCTIONS:
        return
    try:
        operation(call, "result", source).bind(record_type(source.schema))
    except UnsupportedOperationError as error:
        raise PlanningError(str(error)) from error


def _ttl(hints: Sequence[logical.Hint]) -> str | None:
    """The time to live from the hint ``STATE_TTL`` of the only input; None without the hint."""
    found = [value for hint in hints if hint.name == "STATE_TTL" for _, value in hint.options]
    return found[-1] if found else None


def _windowed_or(
    otherwise: MakeAggregate,
    arranged: Arranged,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
) -> PhysicalNode:
    return window_aggregate(source, group, calls, names, arranged) or otherwise(source, group, calls, names)


def _split_or(
    otherwise: MakeAggregate,
    ttl: str | None,
    buckets: int,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
) -> PhysicalNode:
    found = split_aggregate(without_times(source), group, calls, buckets=buckets, ttl=ttl)
    return found or otherwise(source, group, calls, names)


def _grouped(
    ttl: str | None,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    *,
    in_one_phase: bool,
) -> PhysicalNode:
    source = without_times(source)
    return GroupAggregate(Exchange(source, group), group, calls, names, ttl, in_one_phase=in_one_phase)
