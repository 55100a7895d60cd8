"""Columns above joins whose value filters below have fixed, in plans that are shown.

``SELECT b.id FROM b JOIN a ON ... WHERE b.id = 3`` reads no ``id`` from the join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.operators.join.results import JoinType
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalJoin,
    LogicalWatermarkAssigner,
    Project,
    Relation,
)
from headrace.table.logical.scalars import Cast, InputRef, Literal, Scalar
from headrace.table.rules.normalize import Normalize
from headrace.table.rules.searches import constants_of

Constants = dict[int, Literal]


def with_known_columns(relation: Relation) -> Relation:
    """The relation whose projections of joins give constants in place of columns that are known to hold them."""
    return relation.transform(_replaced)


def with_filtered_columns(relation: Relation) -> Relation:
    """The relation with constants in projections above filters that go below an aggregate or a normalization."""
    return relation.transform(_above_filter)


def _above_filter(relation: Relation) -> Relation:
    if not isinstance(relation, Project) or not isinstance(relation.input, Filter) or relation.is_of_table:
        return relation
    below, known = relation.input.input, constants_of(relation.input.condition)
    while isinstance(below, Project):
        below = below.input
    if not known or not isinstance(below, LogicalAggregate | Normalize):
        return relation
    return replace(relation, expressions=tuple(_known(each, known) for each in relation.expressions))


def _known(scalar: Scalar, known: Constants) -> Scalar:
    if not isinstance(scalar, InputRef) or scalar.index not in known:
        return scalar
    return known_value(scalar, known[scalar.index])


def known_value(scalar: Scalar, literal: Literal) -> Scalar:
    """A constant in place of a column that holds it, in the column's type."""
    if literal.value is None:
        return replace(literal, type=scalar.type)
    if isinstance(literal.value, str):
        literal = replace(literal, type=scalar.type.not_null())
    return literal if literal.type == scalar.type else Cast(literal, type=scalar.type)


def _replaced(relation: Relation) -> Relation:
    if not isinstance(relation, Project) or not isinstance(relation.input, LogicalJoin):
        return relation
    known = _of_join(relation.input)
    if not known:
        return relation
    return replace(relation, expressions=tuple(_known(each, known) for each in relation.expressions))


def _constants(relation: Relation) -> Constants:
    rule = _RULES.get(type(relation))
    return {} if rule is None else rule(relation)


def _of_filter(relation: Filter) -> Constants:
    return _constants(relation.input) | constants_of(relation.condition)


def _of_project(relation: Project) -> Constants:
    """The constants of a table with computed columns; other projections give constants themselves."""
    below = _constants(relation.input) if relation.is_of_table else {}
    pairs = enumerate(relation.expressions)
    return {at: below[each.index] for at, each in pairs if isinstance(each, InputRef) and each.index in below}


def _of_join(join: LogicalJoin) -> Constants:
    """The columns of sides whose rows a join does not replace by NULL."""
    width = len(join.left.schema)
    is_left_kept = join.kind in (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI)
    known = _constants(join.left) if is_left_kept else {}
    if join.kind in (JoinType.INNER, JoinType.RIGHT):
        known |= {width + at: literal for at, literal in _constants(join.right).items()}
    return known


_RULES: Final[dict[type[Relation], Callable[[Any], Constants]]] = {
    Filter: _of_filter,
    Project: _of_project,
    LogicalJoin: _of_join,
    LogicalWatermarkAssigner: lambda relation: _constants(relation.input),
}
