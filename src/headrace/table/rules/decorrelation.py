"""Decorrelation: correlated conditions move out of a subquery, and become join conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.common.logical_types import bigint
from headrace.operators.join.results import JoinType
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.join_keys import EQUALITIES, condition_of
from headrace.table.logical.node import LogicalNode, walk
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalJoin,
    LogicalSort,
    Project,
    Relation,
    SetOperation,
)
from headrace.table.logical.scalars import (
    Call,
    CorrelatedRef,
    Frame,
    FrameBound,
    FrameBoundKind,
    InputRef,
    Literal,
    OrderKey,
    OverCall,
    Scalar,
    SortKey,
    all_of,
    conjuncts,
    input_refs,
    moved,
)
from headrace.table.logical.schema import Schema
from headrace.table.rules.conditions import call

_NUMBER: Final = bigint().not_null()
_ROWS_BEFORE: Final = Frame(
    True, FrameBound(FrameBoundKind.UNBOUNDED_PRECEDING), FrameBound(FrameBoundKind.CURRENT_ROW)
)


@dataclass(frozen=True)
class Decorrelated:
    """A relation that no longer refers to the outer row.

    Attributes:
        relation: the relation; columns may be appended to its own.
        conditions: the correlated conditions, over its columns and those of the outer row.
    """

    relation: Relation
    conditions: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class OuterQuery:
    """The query around a subquery.

    Attributes:
        relation: its rows.
        correlation: the name by which the subquery refers to a row.
    """

    relation: Relation
    correlation: str


def decorrelated(relation: Relation, outer: OuterQuery | None) -> Decorrelated:
    """A relation without references to an outer row.

    Raises:
        PlanningError: when it cannot be decorrelated.
    """
    if outer is None or not refers_to(relation, outer.correlation):
        return Decorrelated(relation)
    rule = _RULES.get(type(relation))
    found = None if rule is None else rule(relation, outer)
    if found is None:
        raise PlanningError(
            f"a subquery that refers to the row of the query around it inside {type(relation).__name__} cannot be "
            "executed yet: compare columns with those of the outer row in its WHERE"
        )
    return found


def with_equalities(found: Decorrelated, outer: OuterQuery) -> Decorrelated:
    """A decorrelated relation whose conditions compare its columns with values of the outer row for equality."""
    if all(_is_equality(each, outer.correlation) for each in found.conditions):
        return found
    return _with_domain(found, outer)


def _with_domain(found: Decorrelated, outer: OuterQuery, more: Iterable[int] = ()) -> Decorrelated:
    """A relation joined with all different values of the outer columns that its conditions need.

    Args:
        found: the relation.
        outer: the query around it.
        more: other columns of the outer row that are needed.
    """
    read = _read_around(found.conditions, outer)
    columns = sorted({*read, *more})
    schema = outer.relation.schema
    rows = Project(outer.relation, tuple(map(outer.relation.column, columns)), tuple(schema.names[i] for i in columns))
    group = tuple(range(len(columns)))
    width, domain = len(found.relation.schema), LogicalAggregate(rows, group, (), rows.names, (group,))
    places = {column: width + place for place, column in enumerate(columns)}
    conditions = [_over_domain(each, outer, places) for each in found.conditions]
    joined = LogicalJoin(found.relation, domain, JoinType.INNER, condition_of(conditions))
    strict = {operand for each in found.conditions for operand in _compared(each)}
    kept = (_equal_to_outer(joined, places[each], outer, each, is_strict=each in strict) for each in columns)
    return Decorrelated(joined, tuple(kept))


def _read_around(conditions: Iterable[Scalar], outer: OuterQuery) -> set[int]:
    """The columns of the outer row in some scalars."""
    nodes = (node for each in conditions for node in each.walk())
    return {node.index for node in nodes if isinstance(node, CorrelatedRef) and node.correlation == outer.correlation}


def _over_domain(scalar: Scalar, outer: OuterQuery, places: Mapping[int, int]) -> Scalar:
    """A scalar with columns in place of references to the outer row."""

    def column(node: Scalar) -> Scalar:
        if isinstance(node, CorrelatedRef) and node.correlation == outer.correlation:
            return InputRef(places[node.index], type=node.type)
        return node

    return scalar.transform(column)


def _compared(condition: Scalar) -> list[int]:
    """The columns of an outer row that a condition compares as they are, so that NULL does not meet it."""
    is_comparison = isinstance(condition, Call) and condition.function in ("=", "<>", "<", "<=", ">", ">=")
    return [each.index for each in condition.children if isinstance(each, CorrelatedRef)] if is_comparison else []


def _equal_to_outer(relation: Relation, place: int, outer: OuterQuery, index: int, *, is_strict: bool) -> Scalar:
    column, field = relation.column(place), outer.relation.schema[index]
    value = CorrelatedRef(outer.correlation, index, field.name, type=field.type)
    return call("=" if is_strict or not field.type.nullable else "IS NOT DISTINCT FROM", column, value)


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


def _filter(relation: Filter, outer: OuterQuery) -> Decorrelated:
    below = decorrelated(relation.input, outer)
    parts = conjuncts(relation.condition)
    own = [each for each in parts if not refers_to(each, outer.correlation)]
    around = tuple(each for each in parts if refers_to(each, outer.correlation))
    made = Filter(below.relation, all_of(own)) if own else below.relation
    return Decorrelated(made, (*below.conditions, *around))


def _project(project: Project, outer: OuterQuery) -> Decorrelated | None:
    below = decorrelated(project.input, outer)
    expressions, names = list(project.expressions), list(project.names)
    if read := _read_around(expressions, outer):
        width = len(below.relation.schema)
        below = _with_domain(below, outer, read)
        columns = [_read_around([each], outer) for each in below.conditions]
        domain = {column: width + place for place, (column,) in enumerate(columns)}
        expressions = [_over_domain(each, outer, domain) for each in expressions]
    places: dict[int, int] = {}
    for index in _columns(below.conditions):
        column = below.relation.column(index)
        if column not in expressions:
            expressions.append(column)
            names.append(below.relation.schema.names[index])
        places[index] = expressions.index(column)
    made = replace(project, input=below.relation, expressions=tuple(expressions), names=tuple(names))
    return Decorrelated(made, tuple(moved(each, places) for each in below.conditions))


def _aggregate(aggregate: LogicalAggregate, outer: OuterQuery) -> Decorrelated | None:
    """Adds the columns that are compared with the outer row to the grouping columns."""
    if not aggregate.is_simple:
        return None
    below = with_equalities(decorrelated(aggregate.input, outer), outer)
    aggregate, below = _with_keys_first(aggregate, below)
    keys = _columns(below.conditions)
    strict = _columns([each for each in below.conditions if isinstance(each, Call) and each.function == "="])
    source, added = below.relation, [key for key in keys if key not in aggregate.group]
    missing = [key for key in added if key in strict and source.schema[key].type.nullable]
    checked = [call("IS NOT NULL", source.column(key)) for key in missing]
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


def _with_keys_first(aggregate: LogicalAggregate, below: Decorrelated) -> tuple[LogicalAggregate, Decorrelated]:
    """An aggregate over a projection with the columns in front that are compared with the outer row."""
    project = below.relation
    if not isinstance(project, Project):
        return aggregate, below
    keys = [key for key in _columns(below.conditions) if key not in aggregate.group]
    order = [*keys, *(index for index in range(len(project.expressions)) if index not in keys)]
    places = {index: place for place, index in enumerate(order)}
    made = replace(
        project,
        expressions=tuple(project.expressions[index] for index in order),
        names=tuple(project.names[index] for index in order),
    )
    group = tuple(places[index] for index in aggregate.group)
    calls = tuple(each.moved(places) for each in aggregate.calls)
    conditions = tuple(moved(each, places) for each in below.conditions)
    return replace(aggregate, group=group, calls=calls), Decorrelated(made, conditions)


def without_order(found: Decorrelated) -> tuple[Decorrelated, int]:
    """A decorrelated aggregate without the projection that orders its columns, and the place of the first one."""
    project = found.relation
    if not isinstance(project, Project) or not isinstance(project.input, LogicalAggregate):
        return found, 0
    columns = [each.index for each in project.expressions if isinstance(each, InputRef)]
    count = len(project.input.schema)
    if not columns or columns != [*range(columns[0], count), *range(columns[0])]:
        return found, 0
    places = dict(enumerate(columns))
    return Decorrelated(project.input, tuple(moved(each, places) for each in found.conditions)), columns[0]


def _join(join: LogicalJoin, outer: OuterQuery) -> Decorrelated | None:
    left, right = decorrelated(join.left, outer), decorrelated(join.right, outer)
    conditions = conjuncts(join.condition)
    around = [each for each in conditions if refers_to(each, outer.correlation)]
    if join.kind is not JoinType.INNER and (right.conditions or around):
        if join.kind not in (JoinType.LEFT, JoinType.SEMI, JoinType.ANTI):
            return None
        return _join_with_domain(join, left, right, outer)
    if left.conditions and join.kind.left_is_optional:
        return None
    return _joined(join, left, right, conditions, outer)


def _join_with_domain(join: LogicalJoin, left: Decorrelated, right: Decorrelated, outer: OuterQuery) -> Decorrelated:
    """A join that keeps or drops rows of its left input by conditions on the outer row."""
    before, width = len(join.left.schema), len(left.relation.schema)
    conditions = conjuncts(join.condition)
    below = _with_domain(left, outer, _read_around([*right.conditions, *conditions], outer))
    columns = (_read_around([each], outer) for each in below.conditions)
    domain = {column: width + place for place, (column,) in enumerate(columns)}
    start = len(below.relation.schema)
    shifted = [moved(each, {index: index + before for index in input_refs(each)}) for each in right.conditions]
    found: list[Scalar] = []
    for each in (*conditions, *shifted):
        places = {index: index if index < before else index - before + start for index in input_refs(each)}
        found.append(_over_domain(moved(each, places), outer, domain))
    return _joined(join, below, Decorrelated(right.relation), found, outer, is_placed=True)


def _joined(
    join: LogicalJoin,
    left: Decorrelated,
    right: Decorrelated,
    conditions: Sequence[Scalar],
    outer: OuterQuery,
    *,
    is_placed: bool = False,
) -> Decorrelated:
    """The join of two decorrelated relations, with the columns that were appended to the left one at the end.

    Args:
        join: the join.
        left: its left input.
        right: its right input.
        conditions: its conditions.
        outer: the query around it.
        is_placed: whether the conditions are over the columns of these inputs, and not over those before.
    """
    before, width = len(join.left.schema), len(left.relation.schema)
    if not is_placed:
        places = {
            index: index + (width - before) * (index >= before) for index in range(before + len(join.right.schema))
        }
        conditions = [moved(each, _of(places, each)) for each in conditions]
    own = [each for each in conditions if not refers_to(each, outer.correlation)]
    around = [each for each in conditions if refers_to(each, outer.correlation)]
    shifted = [moved(each, {index: index + width for index in input_refs(each)}) for each in right.conditions]
    made = replace(join, left=left.relation, right=right.relation, condition=condition_of(own))
    found = (*left.conditions, *shifted, *around)
    if width == before or join.kind in (JoinType.SEMI, JoinType.ANTI):
        return Decorrelated(made, found)
    order = [*range(before), *range(width, len(made.schema)), *range(before, width)]
    columns = tuple(made.column(index) for index in order)
    relation = Project(made, columns, tuple(made.schema.names[index] for index in order))
    return Decorrelated(relation, tuple(moved(each, {index: order.index(index) for index in order}) for each in found))


def _sort(sort: LogicalSort, outer: OuterQuery) -> Decorrelated:
    """The first rows for each outer row, by their number; an order of all rows means nothing."""
    below = decorrelated(sort.input, outer)
    if sort.limit is None and not sort.offset:
        return below
    below = with_equalities(below, outer)
    relation, own = below.relation, len(sort.schema)
    columns = tuple(map(relation.column, range(len(relation.schema))))
    keys = sort.keys or tuple(map(SortKey, range(own)))
    number = OverCall(
        "ROW_NUMBER",
        (),
        tuple(columns[index] for index in _columns(below.conditions)),
        tuple(OrderKey(columns[key.index], key.descending, key.nulls_first) for key in keys),
        _ROWS_BEFORE,
        type=_NUMBER,
        at=sort.at,
    )
    numbered = Project(relation, (*columns, number), (*relation.schema.names, "rn"))
    place = numbered.column(len(columns))
    bounds = [call(">", place, Literal(sort.offset, type=_NUMBER))] if sort.offset else []
    if sort.limit is not None:
        bounds.append(call("<=", place, Literal(sort.offset + sort.limit, type=_NUMBER)))
    kept = Filter(numbered, all_of(bounds))
    rows = Project(kept, tuple(map(kept.column, range(len(columns)))), relation.schema.names)
    return Decorrelated(rows, below.conditions)


def _set_operation(operation: SetOperation, outer: OuterQuery) -> Decorrelated:
    """A set operation of rows that have the columns of the outer row which any of its arms needs."""
    found = [decorrelated(each, outer) for each in operation.arms]
    read = sorted({column for each in operation.arms for column in _outer_columns(each, outer)})
    own, fields = len(operation.columns), [outer.relation.schema[index] for index in read]
    arms: list[Relation] = []
    for each in found:
        width, made = len(each.relation.schema), _with_domain(each, outer, read).relation
        places = (*range(own), *range(width, width + len(read)))
        names = (*operation.columns.names, *(field.name for field in fields))
        arms.append(Project(made, tuple(map(made.column, places)), names))
    made = replace(operation, arms=tuple(arms), columns=Schema((*operation.columns, *fields)))
    conditions = (_equal_to_outer(made, own + at, outer, index, is_strict=False) for at, index in enumerate(read))
    return Decorrelated(made, tuple(conditions))


def _outer_columns(node: LogicalNode, outer: OuterQuery) -> set[int]:
    """The columns of the outer row that a relation refers to."""
    nodes = walk(node, LogicalNode)
    return {each.index for each in nodes if isinstance(each, CorrelatedRef) and each.correlation == outer.correlation}


def _of(places: dict[int, int], scalar: Scalar) -> dict[int, int]:
    return {index: places[index] for index in input_refs(scalar)}


def _columns(conditions: Sequence[Scalar]) -> list[int]:
    return list(dict.fromkeys(index for each in conditions for index in input_refs(each)))


def _is_equality(condition: Scalar, correlation: str) -> bool:
    """Return whether a condition compares a column with a value of the outer row."""
    if not isinstance(condition, Call) or condition.function not in EQUALITIES:
        return False
    columns = [each for each in condition.operands if isinstance(each, InputRef)]
    others = [each for each in condition.operands if not list(input_refs(each)) and refers_to(each, correlation)]
    return len(columns) == 1 and len(others) == 1


_RULES: Final[dict[type[Relation], Callable[[Any, OuterQuery], Decorrelated | None]]] = {
    Filter: _filter,
    Project: _project,
    LogicalAggregate: _aggregate,
    LogicalJoin: _join,
    LogicalSort: _sort,
    SetOperation: _set_operation,
}
