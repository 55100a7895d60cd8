"""Decorrelation: correlated conditions move out of a subquery, and become join conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.table.logical.errors import PlanningError
from headrace.table.logical.node import LogicalNode
from headrace.table.logical.relations import Aggregate, Filter, Join, JoinKind, Project, Relation, Sort
from headrace.table.logical.scalars import Call, CorrelatedRef, InputRef, Scalar, Subquery, conjuncts, input_refs, moved
from headrace.table.rules.conditions import all_of, call
from headrace.table.rules.joins import condition_of


@dataclass(frozen=True)
class Decorrelated:
    """A relation that no longer refers to the outer row.

    Attributes:
        relation: the relation; columns may be appended to its own.
        conditions: the correlated conditions, over its columns and those of the outer row.
    """

    relation: Relation
    conditions: tuple[Scalar, ...] = ()


def decorrelated(relation: Relation, correlation: str | None) -> Decorrelated:
    """A relation without references to an outer row.

    Raises:
        PlanningError: when it cannot be decorrelated.
    """
    if correlation is None or not refers_to(relation, correlation):
        return Decorrelated(relation)
    rule = _RULES.get(type(relation))
    found = None if rule is None else rule(relation, correlation)
    if found is None:
        raise PlanningError(
            f"a subquery that refers to the row of the query around it inside {type(relation).__name__} cannot be "
            "executed yet: compare columns with those of the outer row in its WHERE"
        )
    return found


def refers_to(node: LogicalNode, correlation: str) -> bool:
    """Return whether a relation, or a scalar, refers to an outer row."""
    if isinstance(node, CorrelatedRef):
        return node.correlation == correlation
    below: list[LogicalNode] = [*node.parts(Scalar), *node.parts(Relation)]
    return any(refers_to(each, correlation) for each in below)


def over_both(condition: Scalar, correlation: str, width: int) -> Scalar:
    """A condition over a relation and the outer row, as one over the columns of the outer row and then its own."""

    def column(node: Scalar) -> Scalar:
        if isinstance(node, InputRef):
            return replace(node, index=node.index + width)
        if isinstance(node, CorrelatedRef) and node.correlation == correlation:
            return InputRef(node.index, type=node.type, time=node.time)
        return node

    return condition.transform(column)


def _filter(relation: Filter, correlation: str) -> Decorrelated:
    below = decorrelated(relation.input, correlation)
    parts = conjuncts(relation.condition)
    if any(isinstance(node, Subquery) for each in parts if refers_to(each, correlation) for node in each.walk()):
        raise PlanningError("a subquery that refers to the row of a query two levels up cannot be executed yet")
    own = [each for each in parts if not refers_to(each, correlation)]
    outer = tuple(each for each in parts if refers_to(each, correlation))
    made = Filter(below.relation, all_of(own)) if own else below.relation
    return Decorrelated(made, (*below.conditions, *outer))


def _project(project: Project, correlation: str) -> Decorrelated | None:
    if any(refers_to(each, correlation) for each in project.expressions):
        return None
    below = decorrelated(project.input, correlation)
    expressions, names = list(project.expressions), list(project.names)
    places: dict[int, int] = {}
    for index in _columns(below.conditions):
        column = below.relation.column(index)
        if column not in expressions:
            expressions.append(column)
            names.append(below.relation.schema.names[index])
        places[index] = expressions.index(column)
    made = replace(project, input=below.relation, expressions=tuple(expressions), names=tuple(names))
    return Decorrelated(made, tuple(moved(each, places) for each in below.conditions))


def _aggregate(aggregate: Aggregate, correlation: str) -> Decorrelated | None:
    """Adds the columns that are compared with the outer row to the grouping columns."""
    below = decorrelated(aggregate.input, correlation)
    keys = _columns(below.conditions)
    if not aggregate.is_simple or not all(_is_equality(each, correlation) for each in below.conditions):
        return None
    source, added = below.relation, [key for key in keys if key not in aggregate.group]
    checked = [call("IS NOT NULL", source.column(key)) for key in added if source.schema[key].type.nullable]
    if checked:
        source = Filter(source, all_of(checked))
    group = (*aggregate.group, *added)
    names = [below.relation.schema.names[key] for key in added]
    width, count = len(aggregate.group), len(group)
    made = replace(
        aggregate,
        input=source,
        group=group,
        grouping_sets=(group,),
        names=(*aggregate.names[:width], *names, *aggregate.names[width:]),
    )
    # The columns of the aggregate keep their places; the added ones follow them.
    order = [*range(width), *range(count, len(made.schema)), *range(width, count)]
    columns = tuple(made.column(index) for index in order)
    relation = Project(made, columns, tuple(made.schema.names[index] for index in order))
    places = {key: order.index(group.index(key)) for key in keys}
    return Decorrelated(relation, tuple(moved(each, places) for each in below.conditions))


def _join(join: Join, correlation: str) -> Decorrelated | None:
    left, right = decorrelated(join.left, correlation), decorrelated(join.right, correlation)
    takes_right = join.kind is JoinKind.INNER
    takes_left = join.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
    if (left.conditions and not takes_left) or (right.conditions and not takes_right):
        return None
    before, width = len(join.left.schema), len(left.relation.schema)
    places = {index: index if index < before else index - before + width for index in range(len(join.schema) + before)}
    conditions = conjuncts(join.condition)
    if not takes_right and any(refers_to(each, correlation) for each in conditions):
        return None
    own = [moved(each, _of(places, each)) for each in conditions if not refers_to(each, correlation)]
    outer = [moved(each, _of(places, each)) for each in conditions if refers_to(each, correlation)]
    shifted = [moved(each, {index: index + width for index in input_refs(each)}) for each in right.conditions]
    made = replace(join, left=left.relation, right=right.relation, condition=condition_of(own))
    found = (*left.conditions, *shifted, *outer)
    if width == before or join.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return Decorrelated(made, found)
    order = [*range(before), *range(width, len(made.schema)), *range(before, width)]
    columns = tuple(made.column(index) for index in order)
    relation = Project(made, columns, tuple(made.schema.names[index] for index in order))
    return Decorrelated(relation, tuple(moved(each, {index: order.index(index) for index in order}) for each in found))


def _sort(sort: Sort, correlation: str) -> Decorrelated | None:
    return decorrelated(sort.input, correlation) if sort.limit is None and not sort.offset else None


def _of(places: dict[int, int], scalar: Scalar) -> dict[int, int]:
    return {index: places[index] for index in input_refs(scalar)}


def _columns(conditions: Sequence[Scalar]) -> list[int]:
    return list(dict.fromkeys(index for each in conditions for index in input_refs(each)))


def _is_equality(condition: Scalar, correlation: str) -> bool:
    """Return whether a condition compares a column with a value of the outer row."""
    if not isinstance(condition, Call) or condition.function != "=":
        return False
    columns = [each for each in condition.operands if isinstance(each, InputRef)]
    others = [each for each in condition.operands if not list(input_refs(each)) and refers_to(each, correlation)]
    return len(columns) == 1 and len(others) == 1


_RULES: Final[dict[type[Relation], Callable[[Any, str], Decorrelated | None]]] = {
    Filter: _filter,
    Project: _project,
    Aggregate: _aggregate,
    Join: _join,
    Sort: _sort,
}
