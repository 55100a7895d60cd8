"""Conditions that mean the same and compare less, in which unknown counts as false: those of ``WHERE``.

They are also found out that no row meets: ``id > 5 AND id < 3``, and ``id IS NULL`` of a column that is never NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headrace.table.functions.table import is_deterministic
from headrace.table.logical.scalars import BOOLEAN, Call, Literal, Scalar, all_of, conjuncts
from headrace.table.rules.conditions import call, either
from headrace.table.rules.searches import contradict

_TRUE: Final = Literal(True, type=BOOLEAN.not_null())
_FALSE: Final = Literal(False, type=BOOLEAN.not_null())
_HOLDS_FOR_ITSELF: Final = {"=": True, "<=": True, ">=": True, "<>": False, "<": False, ">": False}
"""Whether a comparison of a value with itself is true."""


def simplified_condition(condition: Scalar) -> Scalar:
    """The simplified condition: a literal if it is met always, or never."""
    if not isinstance(condition, Call):
        return condition
    if condition.function == "AND":
        return _conjunction([part for each in conjuncts(condition) for part in conjuncts(simplified_condition(each))])
    if condition.function == "OR":
        return _disjunction([simplified_condition(each) for each in _alternatives(condition)])
    rule = _RULES.get(condition.function)
    return condition if rule is None else rule(condition)


def _alternatives(condition: Scalar) -> list[Scalar]:
    """The conditions that ``OR`` joins, however they are nested."""
    if isinstance(condition, Call) and condition.function == "OR":
        return [each for operand in condition.operands for each in _alternatives(operand)]
    return [condition]


def _conjunction(parts: Sequence[Scalar]) -> Scalar:
    kept = [each for each in dict.fromkeys(parts) if not _is(each, True)]
    if any(_is(each, False) for each in kept) or contradict(kept):
        return _FALSE
    return all_of(kept) if kept else _TRUE


def _disjunction(parts: Sequence[Scalar]) -> Scalar:
    """The disjunction, with what all of its parts have in common before it."""
    kept = [each for each in dict.fromkeys(parts) if not _is(each, False)]
    if not kept:
        return _FALSE
    if any(_is(each, True) for each in kept):
        return _TRUE
    common = [each for each in conjuncts(kept[0]) if all(each in conjuncts(other) for other in kept[1:])]
    common = [each for each in common if is_deterministic(each)] if len(kept) > 1 else []
    if not common:
        return either(kept)
    rests = [[each for each in conjuncts(part) if each not in common] for part in kept]
    return all_of([*common, either([all_of(rest) for rest in rests])] if all(rests) else common)


def _is(scalar: Scalar, value: bool) -> bool:
    """Return whether a scalar is a literal that counts as true, or as false."""
    return isinstance(scalar, Literal) and bool(scalar.value) is value


def _comparison(found: Call) -> Scalar:
    left, right = found.operands
    if any(isinstance(each, Literal) and each.value is None for each in found.operands):
        return _FALSE
    if left != right or isinstance(left, Literal) or not is_deterministic(left):
        return found
    if not _HOLDS_FOR_ITSELF[found.function]:
        return _FALSE
    return _null_test(call("IS NOT NULL", left))


def _null_test(found: Call) -> Scalar:
    if found.operands[0].type.nullable or not is_deterministic(found.operands[0]):
        return found
    return _TRUE if found.function == "IS NOT NULL" else _FALSE


def _same(found: Call) -> Scalar:
    """``IS NOT DISTINCT FROM`` a constant."""
    constant = next((each for each in found.operands if isinstance(each, Literal)), None)
    if constant is None or constant.value is None:
        return found
    return replace(found, function="=", type=BOOLEAN)


def _other(found: Call) -> Scalar:
    """``IS DISTINCT FROM`` a constant."""
    same = _same(found)
    assert isinstance(same, Call)
    return call("IS NOT TRUE", same) if same.function == "=" else found


_RULES: Final[dict[str, Callable[[Call], Scalar]]] = {
    **dict.fromkeys(_HOLDS_FOR_ITSELF, _comparison),
    "IS NULL": _null_test,
    "IS NOT NULL": _null_test,
    "IS NOT DISTINCT FROM": _same,
    "IS DISTINCT FROM": _other,
}
