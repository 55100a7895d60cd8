"""Filter push-down, so that less is computed and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from headrace.operators.join.results import JoinType
from headrace.table.functions.table import is_deterministic
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalCorrelate,
    LogicalJoin,
    LogicalSort,
    Relation,
)
from headrace.table.logical.scalars import (
    InputRef,
    OverCall,
    Scalar,
    SortKey,
    Subquery,
    all_of,
    conjuncts,
    input_refs,
    moved,
    substituted,
)
from headrace.table.rules.conditions import merged
from headrace.table.rules.joins import filter_below_join, with_condition_below
from headrace.table.rules.normalize import Normalize
from headrace.table.rules.temporal import LogicalLookupJoin


def with_filters_below(relation: Relation) -> Relation:
    """The relation with its filters pushed down as far as possible."""
    if isinstance(relation, Filter) and _may_move(relation):
        rule = _RULES.get(type(relation.input))
        found = None if rule is None else rule(relation.condition, relation.input)
        if found is not None:
            return with_filters_below(found)
    if isinstance(relation, LogicalJoin):
        relation = with_condition_below(relation)
    return relation.with_parts(Relation, [with_filters_below(each) for each in relation.inputs])


def _may_move(relation: Filter) -> bool:
    has_subquery = any(isinstance(node, Subquery) for node in relation.condition.walk())
    return relation.correlation is None and not has_subquery and is_deterministic(relation.condition)


def _below_filter(condition: Scalar, below: Filter) -> Relation | None:
    if not _may_move(below):
        return None
    return replace(below, condition=all_of([below.condition, condition]))


def _below_project(condition: Scalar, below: logical.Project) -> Relation | None:
    used = [below.expressions[index] for index in set(input_refs(condition))]
    nodes = [node for each in used for node in each.walk()]
    if any(isinstance(node, OverCall | Subquery) for node in nodes) or not all(map(is_deterministic, used)):
        return None
    if any(isinstance(node, OverCall) for each in below.expressions for node in each.walk()):
        return None
    moved = merged([condition], below.expressions)
    return None if moved is None else replace(below, input=Filter(below.input, moved[0]))


def _below_union(condition: Scalar, below: logical.SetOperation) -> Relation | None:
    if below.operator is not logical.SetOperator.UNION or not below.is_all:
        return None
    return replace(below, arms=tuple(Filter(arm, condition) for arm in below.arms))


def _below_aggregate(condition: Scalar, below: LogicalAggregate) -> Relation | None:
    """Push down conditions on grouping columns."""
    if not below.is_simple or not below.group:
        return None
    width = len(below.group)
    parts = conjuncts(condition)
    moved = [each for each in parts if all(index < width for index in input_refs(each))]
    if not moved:
        return None
    columns = [below.input.column(index) for index in below.group]
    made = replace(below, input=Filter(below.input, substituted(all_of(moved), columns)))
    kept = [each for each in parts if each not in moved]
    return Filter(made, all_of(kept)) if kept else made


def with_common_filters_below(relation: Relation) -> Relation:
    """The relation with those filters below the normalized tables that it reads several times that all of them share.

    So each of these tables is normalized once, as in Flink.
    """
    found = list(_filters_of_shared(relation))
    if not found:
        return relation

    def moved(each: Relation) -> Relation:
        if not isinstance(each, Filter) or not isinstance(each.input, Normalize) or not each.input.is_shared:
            return each
        sides = [parts for table, parts in found if table == each.input.input]
        parts = conjuncts(each.condition)
        common = [part for part in parts if all(part in side for side in sides)]
        if not common:
            return each
        rest = [part for part in parts if part not in common]
        below = _pushed_into(all_of(common), each.input)
        return Filter(below, all_of(rest)) if rest else below

    return relation.transform(moved)


def _filters_of_shared(relation: Relation) -> Iterator[tuple[Relation, list[Scalar]]]:
    """The normalized tables that are read several times, each time with the filters right above."""
    is_filter = isinstance(relation, Filter)
    below = relation.input if isinstance(relation, Filter) else relation
    if isinstance(below, Normalize) and below.is_shared:
        yield below.input, conjuncts(relation.condition) if isinstance(relation, Filter) else []
        return
    for each in below.inputs if is_filter else relation.inputs:
        yield from _filters_of_shared(each)


def _below_normalize(condition: Scalar, below: Normalize) -> Relation | None:
    if not below.is_shared:
        return _pushed_into(condition, below)
    parts = conjuncts(condition)
    of_key = [each for each in parts if set(input_refs(each)) <= set(below.key)]
    if not of_key:
        return None
    made = _pushed_into(all_of(of_key), below)
    others = [each for each in parts if each not in of_key]
    return Filter(made, all_of(others)) if others else made


def _pushed_into(condition: Scalar, below: Normalize) -> Relation:
    """Push down conditions on the key, which hold for all versions of a row; others stay in the node."""
    parts = conjuncts(condition)
    of_key = [each for each in parts if set(input_refs(each)) <= set(below.key)]
    others = [each for each in parts if each not in of_key]
    source = Filter(below.input, all_of(of_key)) if of_key else below.input
    kept = ([] if below.condition is None else [below.condition]) + others
    return replace(below, input=source, condition=all_of(kept) if kept else None)


def _below_correlate(condition: Scalar, below: LogicalCorrelate) -> Relation | None:
    """Push down conditions on one side; on the right one only where rows without a partner are dropped."""
    width, parts = len(below.left.schema), conjuncts(condition)
    lefts = [each for each in parts if all(index < width for index in input_refs(each))]
    is_inner = below.kind is JoinType.INNER
    rights = [each for each in parts if is_inner and all(index >= width for index in input_refs(each))]
    rights = [each for each in rights if each not in lefts]
    if not lefts and not rights:
        return None
    places = {index: index - width for index in range(width, len(below.schema))}
    left = Filter(below.left, all_of(lefts)) if lefts else below.left
    right = Filter(below.right, all_of([moved(each, places) for each in rights])) if rights else below.right
    kept = [each for each in parts if each not in lefts and each not in rights]
    made = replace(below, left=left, right=right)
    return Filter(made, all_of(kept)) if kept else made


_RULES: Final[dict[type[Relation], Callable[[Scalar, Any], Relation | None]]] = {
    Filter: _below_filter,
    logical.Project: _below_project,
    logical.SetOperation: _below_union,
    LogicalAggregate: _below_aggregate,
    LogicalJoin: filter_below_join,
    LogicalLookupJoin: filter_below_join,
    Normalize: _below_normalize,
    LogicalCorrelate: _below_correlate,
}


def with_sorts_below(relation: Relation) -> Relation:
    """The relation with its sorts below projections, which then compute fewer rows."""
    return relation.transform(_sort_below)


def _sort_below(relation: Relation) -> Relation:
    if not isinstance(relation, LogicalSort) or not isinstance(relation.input, logical.Project):
        return relation
    project = relation.input
    nodes = [node for each in project.expressions for node in each.walk()]
    if any(isinstance(node, OverCall | Subquery) for node in nodes) or project.is_of_table:
        return relation
    if _is_filtered(project.input):  # a projection is computed together with the filter below it
        return relation
    if not all(map(is_deterministic, project.expressions)):
        return relation
    keys: list[SortKey] = []
    for key in relation.keys:
        column = project.expressions[key.index]
        if not isinstance(column, InputRef):
            return relation
        keys.append(replace(key, index=column.index))
    return replace(project, input=replace(relation, input=project.input, keys=tuple(keys)))


def _is_filtered(relation: Relation) -> bool:
    return isinstance(relation, Filter) or (isinstance(relation, Normalize) and relation.condition is not None)
