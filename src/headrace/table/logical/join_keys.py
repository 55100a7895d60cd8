"""Conditions of joins, and the keys in them: columns of both inputs that are compared for equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.table.logical.relations import LogicalJoin, Project, Relation
from headrace.table.logical.scalars import (
    BOOLEAN,
    Call,
    Cast,
    InputRef,
    Literal,
    Scalar,
    all_of,
    conjuncts,
    input_refs,
    moved,
)
from headrace.table.logical.schema import unique_names

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


def is_equality(condition: Scalar, width: int) -> bool:
    """Return whether a condition compares a value of the left input with one of the right input."""
    if not isinstance(condition, Call) or condition.function not in EQUALITIES:
        return False
    sides = [{index < width for index in input_refs(operand)} for operand in condition.operands]
    return sides in ([{True}, {False}], [{False}, {True}])


def with_columns(join: LogicalJoin) -> Relation:
    """The join with columns as keys: other expressions are computed in the inputs."""
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
    columns, names = [kept[index] for index in range(len(join.schema))], unique_names(made.schema.names)
    return Project(made, tuple(map(made.column, columns)), tuple(names[index] for index in columns))


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
    return Project(relation, (*own, *shown), unique_names((*relation.schema.names, *names)))


def _name_of(column: Scalar, relation: Relation, index: int) -> str:
    """The name of a computed join key: a cast keeps its operand's name."""
    if isinstance(column, Cast) and isinstance(column.operand, InputRef):
        return relation.schema.names[column.operand.index]
    return f"$f{index}"
