"""Conditions as Calcite simplifies them, which plans show: ``NOT`` pushed down, and comparisons of one operand merged.

``id IN (1, 2)`` is shown as ``SEARCH(id, Sarg[1, 2])``, and ``id > 1 AND id < 5`` as ``SEARCH(id, Sarg[(1..5)])``. What
is computed stays as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.connectors.conditions import COMPARISONS
from headrace.table.functions.table import is_deterministic
from headrace.table.logical.scalars import Call, Cast, FieldAccess, InputRef, Literal, Scalar, conjuncts

_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NEGATED: Final = {
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
    "IS TRUE": "IS NOT TRUE",
    "IS NOT TRUE": "IS TRUE",
    "IS FALSE": "IS NOT FALSE",
    "IS NOT FALSE": "IS FALSE",
}


@dataclass(frozen=True)
class End:
    """An end of a range, at a value or just beside it.

    Attributes:
        literal: the value; None for an infinite end.
        side: 0 at the value, -1 just below it, 1 just above it.
    """

    literal: Literal | None
    side: int

    def key(self, infinity: int) -> tuple[int, Any, int]:
        """The place of the end among others; an infinite one is first or last."""
        return (infinity, 0, 0) if self.literal is None else (0, self.literal.value, self.side)


@dataclass(frozen=True)
class Range:
    """The values from one end to another, which both belong to it."""

    low: End
    high: End

    @property
    def is_point(self) -> bool:
        """Return whether it is one value."""
        return self.low.side == self.high.side == 0 and self.low.literal == self.high.literal is not None

    @property
    def is_empty(self) -> bool:
        """Return whether no value is in it."""
        return self.low.key(-1) > self.high.key(1)


@dataclass(frozen=True)
class Search(Scalar):
    """``SEARCH(operand, Sarg[...])``: whether a value is in one of some ranges.

    Attributes:
        null_as: the result for NULL; unknown if None.
    """

    operand: Scalar
    ranges: tuple[Range, ...]
    null_as: bool | None = None

    @property
    def is_of_points(self) -> bool:
        """Return whether it is ``IN`` or ``NOT IN`` with some values."""
        pairs = zip(self.ranges, self.ranges[1:], strict=False)
        has_gaps = all(one.high.literal == other.low.literal for one, other in pairs)
        is_all = self.ranges[0].low.literal is None and self.ranges[-1].high.literal is None
        return all(each.is_point for each in self.ranges) or (has_gaps and is_all)


def simplified(scalar: Scalar) -> Scalar:
    """A condition in the form that plans show."""
    if isinstance(scalar, Call) and scalar.function == "NOT":
        return _negated(scalar)
    if isinstance(scalar, Call) and scalar.function in NULL_TESTS:
        scalar = _of_operands(scalar)
    if isinstance(scalar, Call) and (known := _of_literals(scalar)) is not None:
        return known
    if not isinstance(scalar, Call) or scalar.function not in ("AND", "OR"):
        given = scalar.parts(Scalar)
        return scalar.with_parts(Scalar, list(map(simplified, given))) if given else scalar
    is_and = scalar.function == "AND"
    parts = [part for each in scalar.operands for part in _parts(simplified(each), scalar.function)]
    parts = list(dict.fromkeys(parts))
    parts = _without_known(_merged(parts, is_and=is_and), is_and=is_and)
    if is_and and len(parts) > 1:
        parts = [_with_null_tests(each) for each in parts]
    return parts[0] if len(parts) == 1 else replace(scalar, operands=tuple(parts))


NULL_TESTS: Final = {
    "IS UNKNOWN": "IS NULL",
    "IS NOT UNKNOWN": "IS NOT NULL",
    "IS NULL": "IS NULL",
    "IS NOT NULL": "IS NOT NULL",
}
"""Tests for NULL, and the names that plans have for them."""

NULL_BY_OPERANDS: Final = frozenset(("+", "-", "*", "/", "LIKE", *_OPPOSITE))
"""Functions that are NULL where an operand is, and nowhere else."""


def _of_operands(scalar: Call) -> Scalar:
    """A test whether a comparison is unknown, or a number NULL, by tests of its operands for NULL."""
    (tested,) = scalar.operands
    name = NULL_TESTS[scalar.function]
    if not isinstance(tested, Call) or tested.function not in NULL_BY_OPERANDS:
        return replace(scalar, function=name)
    if not tested.type.nullable:
        return Literal(name == "IS NOT NULL", type=scalar.type)
    operands = [
        each.operand if isinstance(each, Cast) and each.is_implicit else each
        for each in tested.operands
        if each.type.nullable
    ]
    tests = tuple(_of_operands(replace(scalar, function=name, operands=(each,))) for each in operands)
    if len(tests) == 1:
        return tests[0]
    both = "OR" if name == "IS NULL" else "AND"
    return replace(scalar, function=both, operands=tests)


def _of_literals(scalar: Call) -> Scalar | None:
    """The result of a comparison of numbers that are constants."""
    compare = COMPARISONS.get(scalar.function)
    if compare is None or not all(isinstance(each, Literal) for each in scalar.operands):
        return None
    values = [each.value for each in scalar.operands if isinstance(each, Literal)]
    is_known = all(isinstance(each, int | Decimal) and not isinstance(each, bool) for each in values)
    return Literal(bool(compare(*values)), type=scalar.type.not_null()) if is_known else None


def _with_null_tests(part: Scalar) -> Scalar:
    """``IS NOT DISTINCT FROM`` of two columns, next to other conditions, by equality and tests for NULL."""
    if not isinstance(part, Call) or part.function != "IS NOT DISTINCT FROM":
        return part
    if not all(isinstance(each, InputRef) for each in part.operands):
        return part
    nulls = [Call("IS NULL", (each,), type=part.type) for each in part.operands]
    equal = replace(part, function="=")
    return Call("OR", (equal, Call("AND", tuple(nulls), type=part.type)), type=part.type)


def constants_of(condition: Scalar | None) -> dict[int, Literal]:
    """The columns that a condition compares with a constant for equality, or that it wants to be NULL."""
    parts = [] if condition is None else conjuncts(simplified(condition))
    found = {}
    for part in parts:
        if isinstance(part, Call) and part.function == "IS NULL" and isinstance(part.operands[0], InputRef):
            column = part.operands[0]
            found[column.index] = Literal(None, type=column.type)
        if isinstance(part, Call) and part.function == "=" and (given := _ranges(part)) is not None:
            operand, (only,) = given
            if isinstance(operand, InputRef) and only.low.literal is not None:
                found[operand.index] = only.low.literal
    return found


def contradict(parts: Sequence[Scalar]) -> bool:
    """Return whether comparisons of one operand with constants exclude each other."""
    found: dict[Scalar, Sequence[Range]] = {}
    for part in parts:
        given = _ranges(simplified(part))
        if given is None or not is_deterministic(given[0]):
            continue
        operand, ranges = given
        found[operand] = _intersected(found[operand], ranges) if operand in found else ranges
    return not all(found.values())


def _parts(scalar: Scalar, function: str) -> Sequence[Scalar]:
    if isinstance(scalar, Call) and scalar.function == function:
        return conjuncts(scalar) if function == "AND" else scalar.operands
    return (scalar,)


def _negated(scalar: Call) -> Scalar:
    inner = scalar.operands[0]
    if not isinstance(inner, Call):
        return scalar
    if inner.function == "NOT":
        return simplified(inner.operands[0])
    if inner.function in _OPPOSITE:
        return replace(inner, function=_OPPOSITE[inner.function])
    if inner.function in _NEGATED:
        return replace(inner, function=_NEGATED[inner.function])
    if inner.function in ("AND", "OR"):
        opposite = "OR" if inner.function == "AND" else "AND"
        parts = tuple(replace(scalar, operands=(each,)) for each in inner.operands)
        return simplified(replace(inner, function=opposite, operands=parts))
    return scalar


def _without_known(parts: list[Scalar], *, is_and: bool) -> list[Scalar]:
    """A conjunction without ``IS NOT NULL`` of operands that are compared or hold, and with the others at its end."""
    if not is_and:
        return parts
    compared = {found[0] for each in parts if (found := _ranges(each)) is not None}
    compared |= {each.operands[0] if isinstance(each, Call) and each.function == "NOT" else each for each in parts}
    tests = [each for each in parts if isinstance(each, Call) and each.function == "IS NOT NULL"]
    kept = [each for each in tests if each.children[0] not in compared]
    return [each for each in parts if each not in tests] + kept


def _merged(parts: list[Scalar], *, is_and: bool) -> list[Scalar]:
    """The parts of a conjunction or disjunction, with those on one operand merged at the place of the first."""
    groups: dict[tuple[bool, Scalar], list[Scalar]] = {}
    for part in parts:
        operand = _operand(part, is_and=is_and)
        # A column that is a condition itself is no group with its tests for NULL.
        groups.setdefault((operand is None, part if operand is None else operand), []).append(part)
    return [_combined(operand, group, is_and=is_and) for (_, operand), group in groups.items()]


def _operand(part: Scalar, *, is_and: bool) -> Scalar | None:
    if isinstance(part, Call) and part.function == ("IS NOT NULL" if is_and else "IS NULL"):
        return part.operands[0]
    found = _ranges(part)
    return None if found is None else found[0]


def _combined(operand: Scalar, group: list[Scalar], *, is_and: bool) -> Scalar:
    if len(group) == 1:
        return group[0]
    ranges: list[Range] | None = None
    tests_null = False
    for part in group:
        found = _ranges(part)
        if found is None:
            tests_null = True
        elif ranges is None:
            ranges = list(found[1])
        else:
            ranges = _intersected(ranges, found[1]) if is_and else _united([*ranges, *found[1]])
    first = next(each for each in group if _ranges(each) is not None)
    if not ranges or any(each.low.literal is None and each.high.literal is None for each in ranges):
        return replace(_call_of(first), function="AND" if is_and else "OR", operands=tuple(group))
    if not (tests_null and not is_and) and (plain := _comparison(operand, ranges, first)) is not None:
        return plain
    return Search(operand, tuple(ranges), (not is_and) if tests_null else None, type=first.type)


def _call_of(scalar: Scalar) -> Call:
    return scalar if isinstance(scalar, Call) else Call("OR", (), type=scalar.type)


def _comparison(operand: Scalar, ranges: list[Range], like: Scalar) -> Scalar | None:
    """The single comparison that has these ranges."""
    if len(ranges) != 1:
        return None
    (found,) = ranges
    if found.is_point:
        assert found.low.literal is not None
        return Call("=", (operand, found.low.literal), type=like.type)
    if found.low.literal is not None and found.high.literal is None:
        return Call(">" if found.low.side else ">=", (operand, found.low.literal), type=like.type)
    if found.high.literal is not None and found.low.literal is None:
        return Call("<" if found.high.side else "<=", (operand, found.high.literal), type=like.type)
    return None


def _ranges(part: Scalar) -> tuple[Scalar, tuple[Range, ...]] | None:
    """The operand of a comparison with a constant, and the values for which it is true."""
    if isinstance(part, Search):
        return part.operand, part.ranges
    if not isinstance(part, Call) or part.function not in _OPPOSITE or len(part.operands) != 2:
        return None
    (left, right), function = part.operands, part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED[function]
    if isinstance(right, Cast) and right.is_implicit:
        right = right.operand
    inner = left.operand if isinstance(left, Cast) else left
    if not isinstance(inner, InputRef | FieldAccess) or not isinstance(right, Literal) or right.value is None:
        return None
    is_widened = isinstance(left, Cast) and left.is_implicit and _is_decimal(left) and _is_decimal(inner)
    return inner if is_widened else left, _of_comparison(function, right)


def _is_decimal(scalar: Scalar) -> bool:
    return isinstance(scalar.type, AtomicType) and scalar.type.root is TypeRoot.DECIMAL


def _of_comparison(function: str, value: Literal) -> tuple[Range, ...]:
    low, high = End(None, 0), End(None, 0)
    below, at, above = (End(value, side) for side in (-1, 0, 1))
    return {
        "=": (Range(at, at),),
        "<>": (Range(low, below), Range(above, high)),
        "<": (Range(low, below),),
        "<=": (Range(low, at),),
        ">": (Range(above, high),),
        ">=": (Range(at, high),),
    }[function]


def _intersected(first: Sequence[Range], second: Sequence[Range]) -> list[Range]:
    made = [
        Range(
            max(one.low, other.low, key=lambda end: end.key(-1)), min(one.high, other.high, key=lambda end: end.key(1))
        )
        for one in first
        for other in second
    ]
    return [each for each in made if not each.is_empty]


def _united(ranges: Sequence[Range]) -> list[Range]:
    made: list[Range] = []
    for each in sorted(ranges, key=lambda each: each.low.key(-1)):
        if made and _touches(made[-1].high, each.low):
            made[-1] = Range(made[-1].low, max(made[-1].high, each.high, key=lambda end: end.key(1)))
        else:
            made.append(each)
    return made


def _touches(high: End, low: End) -> bool:
    if high.literal is None or low.literal is None:
        return True
    return low.key(-1) <= high.key(1) or (low.literal.value == high.literal.value and low.side - high.side <= 1)
