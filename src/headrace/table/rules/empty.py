"""Relations over inputs without rows, which are known to have none, or a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.operators.join.results import JoinType
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import (
    LogicalAggregate,
    LogicalJoin,
    LogicalSort,
    LogicalWatermarkAssigner,
    Project,
    Relation,
    SetOperation,
    Values,
)
from headrace.table.logical.scalars import BOOLEAN, InputRef, Literal, Scalar
from headrace.table.rules.normalize import Normalize

_NEVER: Final = Literal(False, type=BOOLEAN.not_null())
_ZERO_OR_NULL: Final = {"COUNT": 0, "SUM": None, "MIN": None, "MAX": None, "AVG": None}
"""The results of aggregates over no rows."""


def with_empty_inputs(relation: Relation) -> Relation:
    """The relation without operators whose result is known, since an input has no rows."""
    return relation.transform(of_no_rows)


def of_no_rows(relation: Relation) -> Relation:
    """The result of a relation of which an input has no rows, where that is known; else the relation."""
    if isinstance(relation, LogicalSort) and relation.limit == 0:
        return _empty(relation)
    rule = _RULES.get(type(relation))
    is_known = any(map(_is_empty, relation.inputs)) or (
        isinstance(relation, LogicalJoin) and relation.condition == _NEVER
    )
    found = rule(relation) if rule is not None and is_known else None
    return relation if found is None else found


def _is_empty(relation: Relation) -> bool:
    return isinstance(relation, Values) and not relation.rows


def _empty(relation: Relation) -> Relation:
    return Values((), relation.schema)


def _aggregate(relation: LogicalAggregate) -> Relation | None:
    if all(relation.grouping_sets):
        return _empty(relation)
    if relation.group or any(call.function not in _ZERO_OR_NULL for call in relation.calls):
        return None
    row = tuple(Literal(_ZERO_OR_NULL[call.function], type=call.type) for call in relation.calls)
    return Values((row,), relation.schema)


def _union(relation: SetOperation) -> Relation | None:
    if relation.operator is not logical.SetOperator.UNION or not relation.is_all:
        return None
    arms = tuple(arm for arm in relation.arms if not _is_empty(arm))
    types = relation.schema.types
    if len(arms) == 1 and arms[0].schema.types == types:
        names = relation.schema.names
        return arms[0] if arms[0].schema.names == names else Project(arms[0], InputRef.all_of(arms[0].schema), names)
    if len(arms) == 1:
        return None
    return SetOperation(relation.operator, arms, True, relation.columns) if arms else _empty(relation)


def _join(join: LogicalJoin) -> Relation | None:
    is_never = join.condition == _NEVER
    if is_never and join.kind is JoinType.FULL:
        return None
    is_left = _is_empty(join.left) or (is_never and join.kind is JoinType.RIGHT)
    is_right = _is_empty(join.right) or (is_never and join.kind is not JoinType.RIGHT)
    if join.kind is JoinType.ANTI and not is_left:
        return join.left
    if is_left and is_right:
        return _empty(join)
    if is_right and join.kind in (JoinType.LEFT, JoinType.FULL):
        return _padded(join, join.left, 0)
    if is_left and join.kind in (JoinType.RIGHT, JoinType.FULL):
        return _padded(join, join.right, len(join.left.schema))
    return _empty(join)


def _padded(join: LogicalJoin, side: Relation, offset: int) -> Relation:
    """The rows of one side, with NULL in the columns of the other one."""
    columns: list[Scalar] = [Literal(None, type=kind.as_nullable()) for kind in join.schema.types]
    columns[offset : offset + len(side.schema)] = InputRef.all_of(side.schema)
    return Project(side, tuple(columns), join.schema.names)


_RULES: Final[dict[type[Relation], Callable[[Any], Relation | None]]] = {
    Project: _empty,
    logical.Filter: _empty,
    LogicalSort: _empty,
    LogicalWatermarkAssigner: _empty,
    Normalize: _empty,
    LogicalAggregate: _aggregate,
    SetOperation: _union,
    LogicalJoin: _join,
}
