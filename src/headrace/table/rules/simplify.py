"""Constants are folded, and conditions simplified, when a statement is planned.

Unknown counts as false in conditions, which are those of ``WHERE``. They are also found out that no row meets:
``id > 5 AND id < 3``, and ``id IS NULL`` of a column that is never NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import HeadraceError
from headrace.common.logical_types import AtomicType, IntervalType, TypeRoot
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.definitions import Determinism
from headrace.table.functions.table import definition_of_call, is_deterministic
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.relations import Filter, LogicalJoin, Project, Relation, Values
from headrace.table.logical.scalars import BOOLEAN, Call, Case, Cast, Literal, Scalar, all_of, conjuncts
from headrace.table.rules.conditions import call, either
from headrace.table.rules.searches import NULL_BY_OPERANDS, NULL_TESTS, contradict

_ONE_ROW: Final = pa.record_batch([pa.nulls(1, pa.int8())], names=["row"])  # pa.array() would import pandas
_INTEGERS: Final = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def with_constants(relation: Relation, time_zone: str) -> Relation:
    """The relation with its constants folded.

    Args:
        relation: the relation.
        time_zone: the session time zone.
    """
    compiler = ExpressionCompiler(lambda _: "a constant", time_zone)

    def fold(node: Relation) -> Relation:
        if isinstance(node, Project):
            return replace(node, expressions=tuple(_value_of(each, compiler) for each in node.expressions))
        if isinstance(node, LogicalJoin):
            parts = [_folded(each, compiler) for each in conjuncts(node.condition)]
            return replace(node, condition=condition_of(parts))
        return _filtered(node, compiler) if isinstance(node, Filter) else node

    return relation.transform(fold)


def with_tests_of_operands(relation: Relation) -> Relation:
    """The relation whose filters, now that they are below projections, test for NULL what is computed there."""
    return relation.transform(
        lambda node: _where(node, node.condition.transform(_of_operands)) if isinstance(node, Filter) else node
    )


def _filtered(relation: Filter, compiler: ExpressionCompiler) -> Relation:
    return _where(relation, all_of([_folded(each, compiler) for each in conjuncts(relation.condition)]))


def _where(relation: Filter, given: Scalar) -> Relation:
    condition = _simplified(given)
    if not isinstance(condition, Literal):
        return replace(relation, condition=condition)
    return relation.input if condition.value else Values((), relation.schema)


def _value_of(scalar: Scalar, compiler: ExpressionCompiler) -> Scalar:
    """A projected scalar with its constants folded; division by zero fails here, in conditions at run time."""
    folded = _folded(scalar, compiler)
    if any(_divides_by_zero(each) for each in folded.walk()):
        raise PlanningError("Division by zero")
    return folded


def _divides_by_zero(scalar: Scalar) -> bool:
    if not isinstance(scalar, Call) or scalar.function != "/":
        return False
    parts = [each.operand if _is_converted(each) and isinstance(each, Cast) else each for each in scalar.operands]
    return all(isinstance(each, Literal) for each in parts) and _is_zero(parts[1])


def _folded(scalar: Scalar, compiler: ExpressionCompiler) -> Scalar:
    def fold(node: Scalar) -> Scalar:
        if _is_constant(node):
            return _value(node, compiler)
        if isinstance(node, Call) and node.function in _AS_WRITTEN:
            return node
        parts = node.parts(Scalar)
        if not any(map(_is_converted, parts)):
            return node
        return node.with_parts(Scalar, [_value(each, compiler) if _is_converted(each) else each for each in parts])

    found = scalar.transform(_reached).transform(fold).transform(_of_operands)
    return _value(found, compiler) if _is_converted(found) else found


_AS_WRITTEN: Final = frozenset(("+", "-", "*", "/", "%"))
"""Functions of numbers of different types, whose constants stay in the type in which they are written."""


def _of_operands(scalar: Scalar) -> Scalar:
    """Tests of the operands in place of a test whether what is computed of them is NULL: nothing is computed then."""
    if not isinstance(scalar, Call) or scalar.function not in NULL_TESTS:
        return scalar
    (operand,) = scalar.operands
    return _null_test(scalar) if isinstance(operand, Call) and operand.function in NULL_BY_OPERANDS else scalar


def _is_converted(scalar: Scalar) -> bool:
    """Return whether a scalar is a constant that is converted to the type that a function takes."""
    return isinstance(scalar, Cast) and scalar.is_implicit and isinstance(scalar.operand, Literal)


def _reached(scalar: Scalar) -> Scalar:
    """The scalar without what literal conditions keep from being evaluated, which may be a division by zero."""
    if isinstance(scalar, Call) and scalar.function in ("AND", "OR"):
        decisive = scalar.function == "OR"
        return next((_typed(each, scalar) for each in scalar.operands if _is(each, decisive)), scalar)
    if not isinstance(scalar, Case):
        return scalar
    branches = [branch for branch in scalar.branches if not _is(branch.condition, False)]
    certain = next((place for place, branch in enumerate(branches) if _is(branch.condition, True)), None)
    otherwise = scalar.otherwise if certain is None else branches[certain].result
    kept = tuple(branches[:certain])
    return replace(scalar, branches=kept, otherwise=otherwise) if kept else _typed(otherwise, scalar)


def _typed(result: Scalar, whole: Scalar) -> Scalar:
    if isinstance(result, Literal):
        return replace(result, type=whole.type)
    return result if result.type == whole.type else whole


def _is(scalar: Scalar, value: bool) -> bool:
    return isinstance(scalar, Literal) and scalar.value is value


def _is_constant(scalar: Scalar) -> bool:
    if not isinstance(scalar, Call | Cast | Case) or not isinstance(scalar.type, AtomicType | IntervalType):
        return False
    if _is_converted(scalar) or not scalar.children:
        return False
    if not all(isinstance(each, Literal) or _is_converted(each) for each in scalar.children):
        return False
    if not isinstance(scalar, Call):
        return True
    definition = definition_of_call(scalar)
    return definition is not None and definition.determinism is Determinism.ALWAYS and definition.user is None


def _value(scalar: Scalar, compiler: ExpressionCompiler) -> Scalar:
    """The constant; a scalar whose evaluation fails stays as it is, and fails when a row needs it."""
    try:
        found = compiler.compile(scalar).column(_ONE_ROW)[0]
    except (HeadraceError, KeyError, pa.ArrowException):
        return scalar
    return Literal(_python(found, scalar), type=scalar.type) if _is_portable(found) else scalar


def constant(scalar: Scalar) -> Scalar:
    """The constant that a scalar of constants is, whatever the session time zone; itself if it is none."""
    return _value(scalar, ExpressionCompiler(lambda _: "a constant", "UTC"))


def _is_portable(found: pa.Scalar) -> bool:
    """Return whether a literal can hold the constant: there are none of infinity, nor of dates beyond the year 9999."""
    try:
        value = found.as_py()
    except (OverflowError, ValueError):
        return False
    return not isinstance(value, float) or math.isfinite(value)


def _is_zero(scalar: Scalar) -> bool:
    return isinstance(scalar, Literal) and scalar.value == 0


def _python(found: pa.Scalar, scalar: Scalar) -> Any:
    kind = scalar.type
    if isinstance(scalar, Cast) and isinstance(scalar.operand, Literal) and isinstance(found.as_py(), Decimal):
        whole = scalar.operand.value
        if isinstance(whole, int | Decimal) and Decimal(whole) == found.as_py():
            return Decimal(whole)  # with the scale as written
    is_integer = isinstance(kind, IntervalType) or (isinstance(kind, AtomicType) and kind.root in _INTEGERS)
    if not found.is_valid or not is_integer:
        return found.as_py()
    return found.as_py() if pa.types.is_integer(found.type) else found.value


_TRUE: Final = Literal(True, type=BOOLEAN.not_null())
_FALSE: Final = Literal(False, type=BOOLEAN.not_null())
_HOLDS_FOR_ITSELF: Final = {"=": True, "<=": True, ">=": True, "<>": False, "<": False, ">": False}
"""The results of comparing a value with itself, by comparison."""


def _simplified(condition: Scalar) -> Scalar:
    """The simplified condition: a literal if it is met always, or never."""
    if isinstance(condition, Case):
        return _chosen(condition)
    if not isinstance(condition, Call):
        return condition
    if condition.function == "AND":
        return _conjunction([part for each in conjuncts(condition) for part in conjuncts(_simplified(each))])
    if condition.function == "OR":
        return _disjunction([_simplified(each) for each in _alternatives(condition)])
    rule = _RULES.get(condition.function)
    return condition if rule is None else rule(condition)


def _alternatives(condition: Scalar) -> list[Scalar]:
    """The conditions that ``OR`` joins, however they are nested."""
    if isinstance(condition, Call) and condition.function == "OR":
        return [each for operand in condition.operands for each in _alternatives(operand)]
    return [condition]


def _conjunction(parts: Sequence[Scalar]) -> Scalar:
    kept = [each for each in dict.fromkeys(parts) if not _counts_as(each, True)]
    if any(_counts_as(each, False) for each in kept) or contradict(kept):
        return _FALSE
    kept.sort(key=lambda each: isinstance(each, Call) and each.function == "IS NOT NULL")  # they are evaluated last
    return all_of(kept) if kept else _TRUE


def _disjunction(parts: Sequence[Scalar]) -> Scalar:
    """The disjunction, with what all of its parts have in common before it."""
    kept = [each for each in dict.fromkeys(parts) if not _counts_as(each, False)]
    if not kept:
        return _FALSE
    if any(_counts_as(each, True) for each in kept):
        return _TRUE
    common = [each for each in conjuncts(kept[0]) if all(each in conjuncts(other) for other in kept[1:])]
    common = [each for each in common if is_deterministic(each)] if len(kept) > 1 else []
    if not common:
        return either(kept)
    rests = [[each for each in conjuncts(part) if each not in common] for part in kept]
    return all_of([*common, either([all_of(rest) for rest in rests])] if all(rests) else common)


def _counts_as(scalar: Scalar, value: bool) -> bool:
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
    (operand,) = found.operands
    if not is_deterministic(operand):
        return found
    name = NULL_TESTS[found.function]
    if not operand.type.nullable:
        return _TRUE if name == "IS NOT NULL" else _FALSE
    if not isinstance(operand, Call) or operand.function not in NULL_BY_OPERANDS:
        return found
    operands = [_converted(each) for each in operand.operands if each.type.nullable]
    tests = [_simplified(call(name, each)) for each in operands]
    return all_of(tests) if name == "IS NOT NULL" else either(tests)


def _converted(scalar: Scalar) -> Scalar:
    """The scalar without an implicit conversion to the type that a function takes."""
    return scalar.operand if isinstance(scalar, Cast) and scalar.is_implicit and not scalar.is_try else scalar


def _chosen(found: Case) -> Scalar:
    """A condition that holds where another one does as well: ``CASE WHEN a THEN b ELSE FALSE END``."""
    (branch, *others) = found.branches
    if others or not _counts_as(found.otherwise, False):
        return found
    return _simplified(all_of([branch.condition, branch.result]))


def _same(found: Call) -> Scalar:
    """``IS NOT DISTINCT FROM`` a constant."""
    literal = next((each for each in found.operands if isinstance(each, Literal)), None)
    if literal is None or literal.value is None:
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
