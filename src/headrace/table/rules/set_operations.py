"""Set operations, by aggregates over ``UNION ALL``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeGuard

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, bigint
from headrace.operators.join.results import JoinType
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalJoin,
    Project,
    Relation,
    SetOperation,
    SetOperator,
    joined_schema,
)
from headrace.table.logical.scalars import AggregateCall, Call, Cast, InputRef, Literal, Scalar, all_of
from headrace.table.logical.schema import Schema
from headrace.table.rules.conditions import call

_BOOLEAN: Final = AtomicType(TypeRoot.BOOLEAN)
_NEVER_NULL: Final = _BOOLEAN.not_null()
_COUNT: Final = bigint().not_null()


@dataclass(frozen=True)
class ReplicateRows(Relation):
    """Each row as many times as its first column requires, without that column."""

    input: Relation

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.input.schema.fields[1:])


def with_simple_unions(relation: Relation) -> Relation:
    """The relation in which ``UNION ALL`` is the only set operation."""
    return relation.transform(_simple)


def _simple(relation: Relation) -> Relation:
    if not isinstance(relation, SetOperation):
        return relation
    if relation.operator is SetOperator.UNION:
        if relation.is_all:
            return relation
        arms = tuple(arm.input if _is_distinct(arm) else arm for arm in relation.arms)
        return _distinct(replace(relation, is_all=True, arms=arms))
    if len(relation.arms) > 2:
        *first, last = relation.arms
        return _simple(replace(relation, arms=(_simple(replace(relation, arms=tuple(first))), last)))
    if not relation.is_all:
        return _of_distinct_rows(relation)
    return _intersected(relation) if relation.operator is SetOperator.INTERSECT else _subtracted(relation)


def _distinct(relation: Relation) -> Relation:
    columns = tuple(range(len(relation.schema)))
    return LogicalAggregate(relation, columns, (), relation.schema.names, (columns,))


def _is_distinct(relation: Relation) -> TypeGuard[LogicalAggregate]:
    """Return whether a relation has the distinct rows of its input."""
    if not isinstance(relation, LogicalAggregate) or relation.calls or not relation.is_simple:
        return False
    return relation.group == tuple(range(len(relation.input.schema)))


def _marked(operation: SetOperation, markers: Sequence[Sequence[tuple[str, Scalar]]]) -> SetOperation:
    """The rows of all inputs, with columns appended that mark the input."""
    arms = []
    for arm, added in zip(operation.arms, markers, strict=True):
        columns = _in_types(arm, operation.columns.types)
        names = (*arm.schema.names, *(name for name, _ in added))
        arms.append(Project(arm, (*columns, *(marker for _, marker in added)), names))
    behind = tuple(marker.as_field(name) for name, marker in markers[0])
    schema = Schema((*operation.columns, *(field.as_nullable() for field in behind)))
    return SetOperation(SetOperator.UNION, tuple(arms), True, schema)


def _subtracted(operation: SetOperation) -> Relation:
    """``EXCEPT ALL``: rows of the left count 1, those of the right -1."""
    width = len(operation.schema)
    markers = [[("vcol_marker", Literal(number, type=_COUNT))] for number in (1, -1)]
    union = _marked(operation, markers)
    keys = tuple(range(width))
    call = AggregateCall("SUM", (width,), bigint())
    summed = LogicalAggregate(union, keys, (call,), (*operation.schema.names, "sum_vcol_marker"), (keys,))
    total = summed.column(width)
    positive = Call(">", (total, Literal(0, type=_COUNT)), type=_BOOLEAN)
    return _replicated(Filter(summed, positive), total, width)


def _of_distinct_rows(operation: SetOperation) -> Relation:
    """``INTERSECT`` and ``EXCEPT``: the distinct rows of the left input that the right one has, or has not."""
    left, right = (_with_types(arm, operation.schema.types) for arm in operation.arms)
    rows = joined_schema(left.schema, right.schema, JoinType.INNER)
    pairs = zip(InputRef.all_of(rows), InputRef.all_of(rows)[len(left.schema) :], strict=False)
    same = all_of([call(_EQUAL[one.type.nullable or other.type.nullable], one, other) for one, other in pairs])
    kind = JoinType.SEMI if operation.operator is SetOperator.INTERSECT else JoinType.ANTI
    return _distinct(LogicalJoin(left, right, kind, same))


_EQUAL: Final = {True: "IS NOT DISTINCT FROM", False: "="}


def _with_types(arm: Relation, types: Sequence[LogicalType]) -> Relation:
    """An input in the types of a set operation."""
    columns = _in_types(arm, types)
    return arm if columns == InputRef.all_of(arm.schema) else Project(arm, columns, arm.schema.names)


def _in_types(arm: Relation, types: Sequence[LogicalType]) -> tuple[Scalar, ...]:
    """The columns of an input in some types."""
    pairs = zip(InputRef.all_of(arm.schema), types, strict=True)
    return tuple(each if each.type == kind else Cast(each, type=kind) for each, kind in pairs)


def _counted(operation: SetOperation) -> tuple[LogicalAggregate, tuple[InputRef, InputRef]]:
    """The distinct rows of two inputs, with their counts in each."""
    width = len(operation.schema)
    yes, nothing = Literal(True, type=_NEVER_NULL), Literal(None, type=_BOOLEAN)
    names = ("vcol_left_marker", "vcol_right_marker")
    union = _marked(operation, [list(zip(names, each, strict=True)) for each in ((yes, nothing), (nothing, yes))])
    keys = tuple(range(width))
    calls = tuple(AggregateCall("COUNT", (width + side,), _COUNT) for side in (0, 1))
    counted_names = (*operation.schema.names, "vcol_left_cnt", "vcol_right_cnt")
    counted = LogicalAggregate(union, keys, calls, counted_names, (keys,))
    return counted, (counted.column(width), counted.column(width + 1))


def _intersected(operation: SetOperation) -> Relation:
    """``INTERSECT ALL``: each row as many times as in the input that has fewer of it."""
    counted, (left, right) = _counted(operation)
    there = [Call(">=", (each, Literal(1, type=_COUNT)), type=_NEVER_NULL) for each in (left, right)]
    fewer = Call("IF", (Call(">", (left, right), type=_NEVER_NULL), right, left), type=_COUNT)
    return _replicated(Filter(counted, all_of(there)), fewer, len(operation.schema))


def _count_name(count: Scalar, relation: Relation) -> str:
    return relation.schema.names[count.index] if isinstance(count, InputRef) else "$f0"


def _replicated(relation: Relation, count: Scalar, width: int) -> Relation:
    columns = tuple(InputRef(index, type=relation.schema[index].type) for index in range(width))
    names = (_count_name(count, relation), *relation.schema.names[:width])
    return ReplicateRows(Project(relation, (count, *columns), names))
