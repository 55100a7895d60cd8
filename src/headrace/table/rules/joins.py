"""Join rules: push conditions into inputs, make join keys columns, and simplify outer joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.table.logical.relations import Filter, Join, JoinKind, Project, Relation
from headrace.table.logical.scalars import (
    BOOLEAN,
    Call,
    Cast,
    InputRef,
    Literal,
    OverCall,
    Scalar,
    Subquery,
    conjuncts,
    input_refs,
    moved,
)
from headrace.table.rules.conditions import all_of, is_deterministic

TRUE: Final = Literal(True, type=BOOLEAN.not_null())
"""The condition of a cross join."""

EQUALITIES: Final = ("=", "IS NOT DISTINCT FROM")
"""The functions that compare join keys."""


def is_true(scalar: Scalar) -> bool:
    """Return whether a condition is the constant TRUE."""
    return isinstance(scalar, Literal) and scalar.value is True


def condition_of(parts: Sequence[Scalar]) -> Scalar:
    """The conjunction of conditions; TRUE if there are none."""
    kept = [each for each in parts if not is_true(each)]
    return all_of(kept) if kept else TRUE


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

    def applied(self, join: Join) -> Join:
        """The join over inputs that are filtered by the conditions of one input."""
        return replace(join, left=_filtered(join.left, self.left), right=_filtered(join.right, self.right))


def _may_move(condition: Scalar) -> bool:
    return is_deterministic(condition) and not any(isinstance(node, Subquery | OverCall) for node in condition.walk())


def _filtered(relation: Relation, conditions: Sequence[Scalar]) -> Relation:
    return Filter(relation, all_of(conditions)) if conditions else relation


def filter_below_join(condition: Scalar, join: Join) -> Relation | None:
    """A filter pushed into a join; None if all of it has to stay."""
    conditions, width = conjuncts(condition), len(join.left.schema)
    kind = _without_nulls(join.kind, conditions, width)
    inner = kind is JoinKind.INNER
    sides = _Sides.of(conditions, width, left=not kind.left_is_optional, right=not kind.right_is_optional)
    if kind is join.kind and not sides.left and not sides.right and not (inner and sides.both):
        return None
    made = sides.applied(replace(join, kind=kind))
    if inner:
        return replace(made, condition=condition_of([*conjuncts(join.condition), *sides.both]))
    return _filtered(made, sides.both)


def with_condition_below(join: Join) -> Join:
    """The join with conditions on one input pushed into that input, unless it is the outer side."""
    takes_left = join.kind in (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
    takes_right = join.kind not in (JoinKind.RIGHT, JoinKind.FULL)
    width, parts = len(join.left.schema), conjuncts(join.condition)
    marks = [each for each in parts if join.kind is JoinKind.ANTI and isinstance(each, InputRef)]  # of EXISTS
    sides = _Sides.of([each for each in parts if each not in marks], width, left=takes_left, right=takes_right)
    return replace(sides.applied(join), condition=condition_of([*sides.both, *marks]))


def _without_nulls(kind: JoinKind, conditions: Sequence[Scalar], width: int) -> JoinKind:
    """The join type below conditions that reject NULLs of unmatched rows (Calcite's ``simplifyOuterJoin``)."""
    keeps_left, keeps_right = kind.right_is_optional, kind.left_is_optional
    if kind.right_is_optional and any(_rejects_nulls(each, range(width, 1 << 30)) for each in conditions):
        keeps_left = False
    if kind.left_is_optional and any(_rejects_nulls(each, range(width)) for each in conditions):
        keeps_right = False
    if kind not in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL):
        return kind
    return _KINDS[keeps_left, keeps_right]


_KINDS: Final = {
    (False, False): JoinKind.INNER,
    (True, False): JoinKind.LEFT,
    (False, True): JoinKind.RIGHT,
    (True, True): JoinKind.FULL,
}

_COMPARISONS: Final = frozenset(("=", "<>", "<", "<=", ">", ">=", "IS NOT NULL", "LIKE"))
_STRICT: Final = frozenset(("+", "-", "*", "/", "UPPER", "LOWER", "ABS", "MOD"))


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


def is_equality(condition: Scalar, width: int) -> bool:
    """Return whether a condition compares a value of the left input with one of the right input."""
    if not isinstance(condition, Call) or condition.function not in EQUALITIES:
        return False
    sides = [{index < width for index in input_refs(operand)} for operand in condition.operands]
    return sides in ([{True}, {False}], [{False}, {True}])


def with_columns_of_keys(relation: Relation) -> Relation:
    """The relation with columns as join keys: other expressions are computed in the inputs."""
    return relation.transform(lambda node: _with_columns(node) if isinstance(node, Join) else node)


def _with_columns(join: Join) -> Relation:
    width = len(join.left.schema)
    added = _AddedColumns(width, [], [])
    conditions = [added.replaced(each) if is_equality(each, width) else each for each in conjuncts(join.condition)]
    if not added.left and not added.right:
        return join
    shift = len(added.left)
    kept = {index: index + shift if index >= width else index for index in range(width + len(join.right.schema))}
    final = [_placed(each, kept, width) for each in conditions]
    made = replace(
        join,
        left=_extended(join.left, added.left),
        right=_extended(join.right, added.right),
        condition=condition_of(final),
    )
    columns = range(len(join.schema))
    return Project(made, tuple(made.column(kept[index]) for index in columns), join.schema.names)


@dataclass(frozen=True)
class _AddedColumns:
    """Join keys that are expressions, and become columns of the inputs.

    Attributes:
        width: the number of columns of the left input before.
        left: those of the left input.
        right: those of the right input, over its own columns.
    """

    width: int
    left: list[Scalar]
    right: list[Scalar]

    def replaced(self, equality: Scalar) -> Scalar:
        """An equality over columns; new ones have negative indices: odd ones of the left, even ones of the right."""
        assert isinstance(equality, Call)
        return replace(equality, operands=tuple(map(self._column, equality.operands)))

    def _column(self, operand: Scalar) -> Scalar:
        if isinstance(operand, InputRef):
            return operand
        is_left = all(index < self.width for index in input_refs(operand))
        columns = self.left if is_left else self.right
        shift = 0 if is_left else -self.width
        columns.append(moved(operand, {index: index + shift for index in input_refs(operand)}))
        return InputRef(-2 * len(columns) + is_left, type=operand.type)


def _placed(condition: Scalar, kept: dict[int, int], width: int) -> Scalar:
    """A condition with the new columns at their places after those of their input."""
    shift = kept[width] - width if width in kept else 0

    def place(index: int) -> int:
        if index >= 0:
            return kept[index]
        number = (-index - 1) // 2
        return width + number if index % 2 else len(kept) + shift + number

    return moved(condition, {index: place(index) for index in input_refs(condition)})


def _extended(relation: Relation, columns: Sequence[Scalar]) -> Relation:
    if not columns:
        return relation
    own = InputRef.all_of(relation.schema)
    shown = tuple(replace(each, is_implicit=False) if isinstance(each, Cast) else each for each in columns)
    names = (_name_of(each, relation, len(own) + number) for number, each in enumerate(shown))
    return Project(relation, (*own, *shown), (*relation.schema.names, *names))


def _name_of(column: Scalar, relation: Relation, index: int) -> str:
    """The name of a computed join key: a cast keeps its operand's name."""
    if isinstance(column, Cast) and isinstance(column.operand, InputRef):
        return relation.schema.names[column.operand.index]
    return f"$f{index}"
