"""Join rules: push conditions into inputs, make join keys columns, and simplify outer joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.operators.join.results import JoinType
from headrace.table.functions.table import is_deterministic
from headrace.table.functions.types import root_of
from headrace.table.logical.join_keys import condition_of, is_equality, with_columns
from headrace.table.logical.relations import Filter, LogicalJoin, Project, Relation
from headrace.table.logical.scalars import (
    Call,
    Cast,
    InputRef,
    OverCall,
    Scalar,
    Subquery,
    all_of,
    conjuncts,
    input_refs,
    moved,
)
from headrace.table.rules.conditions import factored
from headrace.table.rules.temporal import LogicalTemporalJoin


@dataclass(frozen=True)
class _Sides:
    """Conditions by the input whose columns they read.

    Attributes:
        left: the conditions on the left input only.
        right: the conditions on the right input only, over its own columns.
        both: the others.
    """

    left: list[Scalar]
    right: list[Scalar]
    both: list[Scalar]

    @staticmethod
    def of(conditions: Sequence[Scalar], width: int, *, left: bool, right: bool) -> _Sides:
        """Sorts conditions; those on an input into which none can be pushed are among the others."""
        found = _Sides([], [], [])
        for each in conditions:
            reads = {index < width for index in input_refs(each)}
            if reads == {True} and left and _may_move(each):
                found.left.append(each)
            elif reads == {False} and right and _may_move(each):
                found.right.append(moved(each, {index: index - width for index in input_refs(each)}))
            else:
                found.both.append(each)
        return found

    def with_equal_keys(self, join: LogicalJoin) -> _Sides:
        """Conditions on keys are on those of the other input too, since pairs have equal keys."""
        if join.kind in (JoinType.SEMI, JoinType.ANTI):
            return self
        pairs = list(_equal_columns(join))
        of_left = {left: join.right.column(right) for left, right in pairs}
        of_right = {right: join.left.column(left) for left, right in pairs}
        left = dict.fromkeys([*self.left, *_over_others(self.right, of_right)])
        right = dict.fromkeys([*self.right, *_over_others(self.left, of_left)])
        return _Sides(list(left), list(right), self.both)

    def applied(self, join: LogicalJoin) -> LogicalJoin:
        """The join over inputs that are filtered by the conditions of one input."""
        return replace(join, left=_filtered(join.left, self.left), right=_filtered(join.right, self.right))


def _equal_columns(join: LogicalJoin) -> Iterator[tuple[int, int]]:
    """The columns of both inputs, by their places in them, that a join compares by ``=``."""
    width = len(join.left.schema)
    for each in conjuncts(join.condition):
        if isinstance(each, Call) and each.function == "=" and is_equality(each, width):
            columns = [operand for operand in each.operands if isinstance(operand, InputRef)]
            if len(columns) == 2 and root_of(columns[0].type) is root_of(columns[1].type):
                left, right = sorted(column.index for column in columns)
                yield left, right - width


def _over_others(conditions: Sequence[Scalar], columns: Mapping[int, InputRef]) -> Iterator[Scalar]:
    """The conditions that read no other columns than these, over the columns that are equal to them."""

    def other(node: Scalar) -> Scalar:
        return columns[node.index] if isinstance(node, InputRef) else node

    for each in conditions:
        if set(input_refs(each)) <= columns.keys():
            yield each.transform(other)


def _may_move(condition: Scalar) -> bool:
    return is_deterministic(condition) and not any(isinstance(node, Subquery | OverCall) for node in condition.walk())


def _filtered(relation: Relation, conditions: Sequence[Scalar]) -> Relation:
    return Filter(relation, all_of(conditions)) if conditions else relation


def filter_below_join(condition: Scalar, join: LogicalJoin) -> Relation | None:
    """A filter pushed into a join; None if all of it has to stay."""
    conditions = [part for each in conjuncts(condition) for part in conjuncts(factored(each))]
    width = len(join.left.schema)
    kind = _without_nulls(join.kind, conditions, width)
    inner = kind is JoinType.INNER
    sides = _Sides.of(conditions, width, left=not kind.left_is_optional, right=not kind.right_is_optional)
    if kind is join.kind and not sides.left and not sides.right and not (inner and sides.both):
        return None
    changed = replace(join, kind=kind)
    if inner:
        changed = replace(changed, condition=condition_of([*conjuncts(join.condition), *sides.both]))
    made = sides.with_equal_keys(changed).applied(changed)
    return made if inner else _filtered(made, sides.both)


def with_condition_below(join: LogicalJoin) -> LogicalJoin:
    """The join with conditions on one input pushed into that input, unless it is the outer side."""
    takes_left = join.kind in (JoinType.INNER, JoinType.RIGHT, JoinType.SEMI)
    takes_right = join.kind not in (JoinType.RIGHT, JoinType.FULL)
    width, parts = len(join.left.schema), conjuncts(join.condition)
    marks = [each for each in parts if join.kind is JoinType.ANTI and isinstance(each, InputRef)]  # of EXISTS
    sides = _Sides.of([each for each in parts if each not in marks], width, left=takes_left, right=takes_right)
    made = replace(join, condition=condition_of([*sides.both, *marks]))
    return (sides.with_equal_keys(made) if join.kind is JoinType.INNER else sides).applied(made)


def _without_nulls(kind: JoinType, conditions: Sequence[Scalar], width: int) -> JoinType:
    """The join type below conditions that reject NULLs of unmatched rows (Calcite's ``simplifyOuterJoin``)."""
    keeps_left, keeps_right = kind.right_is_optional, kind.left_is_optional
    if kind.right_is_optional and any(_rejects_nulls(each, range(width, 1 << 30)) for each in conditions):
        keeps_left = False
    if kind.left_is_optional and any(_rejects_nulls(each, range(width)) for each in conditions):
        keeps_right = False
    if kind not in (JoinType.LEFT, JoinType.RIGHT, JoinType.FULL):
        return kind
    return _KINDS[keeps_left, keeps_right]


_KINDS: Final = {
    (False, False): JoinType.INNER,
    (True, False): JoinType.LEFT,
    (False, True): JoinType.RIGHT,
    (True, True): JoinType.FULL,
}

_COMPARISONS: Final = frozenset(("=", "<>", "<", "<=", ">", ">=", "IS NOT NULL", "LIKE"))
_STRICT: Final = frozenset(("+", "-", "*", "/", "MOD"))


def _rejects_nulls(condition: Scalar, columns: range) -> bool:
    """Return whether a condition is never true when all of some columns are NULL."""
    if not isinstance(condition, Call) or condition.function not in _COMPARISONS:
        return False
    return any(_is_null_with(each, columns) for each in condition.operands)


def _is_null_with(scalar: Scalar, columns: range) -> bool:
    if isinstance(scalar, InputRef):
        return scalar.index in columns
    if isinstance(scalar, Cast):
        return _is_null_with(scalar.operand, columns)
    is_strict = isinstance(scalar, Call) and scalar.function in _STRICT
    return is_strict and any(_is_null_with(each, columns) for each in scalar.children)


def with_columns_of_keys(relation: Relation) -> Relation:
    """The relation with columns as join keys: other expressions are computed in the inputs."""

    def changed(node: Relation) -> Relation:
        if isinstance(node, LogicalTemporalJoin):
            return _of_versions(with_columns(LogicalJoin(node.left, node.right, node.kind, node.condition)), node.time)
        return with_columns(node) if isinstance(node, LogicalJoin) else node

    return relation.transform(changed)


def _of_versions(made: Relation, time: int) -> Relation:
    """A join with versions of a table in place of a join, or of one below a projection."""
    if isinstance(made, Project):
        return replace(made, input=_of_versions(made.input, time))
    assert isinstance(made, LogicalJoin)
    return LogicalTemporalJoin(made.left, made.right, made.kind, made.condition, time)


def with_one_of_equals(relation: Relation) -> Relation:
    """The relation with a key of a join in place of ``COALESCE`` of both keys, one of which is never NULL alone."""

    def one(node: Relation) -> Relation:
        if not isinstance(node, Project) or not isinstance(join := node.input, LogicalJoin):
            return node
        if join.kind not in _KEPT_KEYS:
            return node
        width = len(join.left.schema)
        pairs = {each.children for each in conjuncts(join.condition) if is_equality(each, width)}
        place = _KEPT_KEYS[join.kind]

        def key(scalar: Scalar) -> Scalar:
            if not isinstance(scalar, Call) or scalar.function != "COALESCE" or scalar.children not in pairs:
                return scalar
            return scalar.children[place]

        return replace(node, expressions=tuple(each.transform(key) for each in node.expressions))

    return relation.transform(one)


_KEPT_KEYS: Final = {JoinType.INNER: 0, JoinType.LEFT: 0, JoinType.RIGHT: 1}
"""The side whose key is not NULL when that of the other side is not."""
