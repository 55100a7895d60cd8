"""Aggregates whose groups are single rows are projections (Flink's ``FlinkAggregateRemoveRule``), constants no keys.

``SELECT id, MAX(price) FROM t GROUP BY id``, where ``id`` is the primary key, is ``SELECT id, price FROM t``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.operators.join.results import JoinType
from headrace.table.logical.join_keys import is_equality
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalJoin,
    LogicalSort,
    LogicalWatermarkAssigner,
    Project,
    Relation,
    Scan,
)
from headrace.table.logical.scalars import AggregateCall, Call, Cast, InputRef, Literal, Scalar, conjuncts
from headrace.table.rules.group_windows import has_group_window
from headrace.table.rules.normalize import Normalize
from headrace.table.rules.purpose import PlanPurpose

_Keys = set[frozenset[int]]

_OF_ONE_ROW: Final = ("MAX", "MIN", "SUM")
"""The functions whose result over one row is their argument."""


def with_unique_groups(relation: Relation, purpose: PlanPurpose) -> Relation:
    """The relation with projections in place of aggregates whose groups are single rows.

    Plans that are shown have the names of the columns below, as in Flink.
    """
    return relation.transform(
        lambda each: _projected(each, purpose) if isinstance(each, LogicalAggregate) and _is_needless(each) else each
    )


def with_needed_distinct(relation: Relation) -> Relation:
    """The relation without ``DISTINCT`` of rows that have a key."""
    return relation.transform(
        lambda each: (
            each.input
            if isinstance(each, LogicalAggregate) and each.schema == each.input.schema and _is_needless(each)
            else each
        )
    )


def _is_needless(aggregate: LogicalAggregate) -> bool:
    if not aggregate.is_simple or not aggregate.group or has_group_window(aggregate):
        return False
    keys = _unique_keys(aggregate.input)
    return any(key <= {*aggregate.group} for key in keys) and all(map(_is_argument, aggregate.calls))


def _is_argument(call: AggregateCall) -> bool:
    return call.function in _OF_ONE_ROW and call.filter is None and len(call.operands) == 1


def _projected(aggregate: LogicalAggregate, purpose: PlanPurpose) -> Project:
    below = aggregate.input
    places = [*aggregate.group, *(call.operands[0] for call in aggregate.calls)]
    results = (_result(below.column(call.operands[0]), call) for call in aggregate.calls)
    names = aggregate.names
    if purpose.is_shown:
        given = below.schema.names
        names = tuple(
            name if place in places[:at] else given[place]
            for at, (place, name) in enumerate(zip(places, names, strict=True))
        )
    return Project(below, (*map(below.column, aggregate.group), *results), names)


def _result(column: InputRef, call: AggregateCall) -> Scalar:
    is_same = column.type.as_nullable() == call.type.as_nullable() and column.time is call.time
    return column if is_same else Cast(column, type=call.type)


# --- keys -------------------------------------------------------------------------------------------------------------


def _unique_keys(relation: Relation) -> _Keys:
    """Sets of columns in which no two rows have the same values."""
    rule = _RULES.get(type(relation))
    return set() if rule is None else rule(relation)


def _of_project(project: Project) -> _Keys:
    places: dict[int, int] = {}
    for place, each in enumerate(project.expressions):
        if isinstance(each, InputRef):
            places.setdefault(each.index, place)
    keys = _unique_keys(project.input)
    return {frozenset(places[index] for index in key) for key in keys if key <= places.keys()}


def _of_aggregate(aggregate: LogicalAggregate) -> _Keys:
    return {frozenset(range(len(aggregate.group)))} if aggregate.is_simple else set()


def _of_join(join: LogicalJoin) -> _Keys:
    left = _unique_keys(join.left)
    if join.kind in (JoinType.SEMI, JoinType.ANTI):
        return left
    width = len(join.left.schema)
    right = {frozenset(index + width for index in key) for key in _unique_keys(join.right)}
    compared = _compared(join, width)
    found = {one | other for one in left for other in right}
    if not join.kind.left_is_optional and any(key <= compared for key in right):
        found |= left
    if not join.kind.right_is_optional and any(key <= compared for key in left):
        found |= right
    return found


def _compared(join: LogicalJoin, width: int) -> set[int]:
    """The columns of both inputs that a join compares for equality."""
    equalities = [each for each in conjuncts(join.condition) if is_equality(each, width)]
    operands = [operand for each in equalities if isinstance(each, Call) for operand in each.operands]
    return {operand.index for operand in operands if isinstance(operand, InputRef)}


def _of_input(relation: Any) -> _Keys:
    return _unique_keys(relation.input)


_RULES: Final[dict[type[Relation], Callable[[Any], _Keys]]] = {
    Scan: lambda scan: {frozenset(scan.primary_key)} if scan.primary_key else set(),
    Project: _of_project,
    Filter: _of_input,
    LogicalWatermarkAssigner: _of_input,
    Normalize: _of_input,
    LogicalSort: _of_input,
    LogicalAggregate: _of_aggregate,
    LogicalJoin: _of_join,
}


def with_constants_above_groups(relation: Relation) -> Relation:
    """The relation whose aggregates group by no constants; by the first one where there are only constants.

    Calcite's ``AggregateProjectPullUpConstantsRule``.
    """
    return relation.transform(lambda each: _without_constants(each) if isinstance(each, LogicalAggregate) else each)


def _without_constants(aggregate: LogicalAggregate) -> Relation:
    below = aggregate.input
    if not isinstance(below, Project) or not aggregate.is_simple or has_group_window(aggregate):
        return aggregate
    places = range(len(aggregate.group))
    kept = [at for at in places if not isinstance(below.expressions[aggregate.group[at]], Literal)] or [*places[:1]]
    if len(kept) == len(places):
        return aggregate
    group = tuple(aggregate.group[at] for at in kept)
    names = (*(aggregate.names[at] for at in kept), *aggregate.names[len(places) :])
    made = replace(aggregate, group=group, grouping_sets=(group,), names=names)
    keys: list[Scalar] = [
        made.column(kept.index(at)) if at in kept else below.expressions[aggregate.group[at]] for at in places
    ]
    calls = map(made.column, range(len(kept), len(names)))
    return Project(made, (*keys, *calls), aggregate.names)
