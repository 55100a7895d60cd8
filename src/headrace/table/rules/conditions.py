"""Scalars that rules make and compare: calls, conjunctions and disjunctions, merged projections."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from headrace.table.functions.definitions import CallShape
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import with_nullability
from headrace.table.logical.scalars import Call, Case, Cast, Literal, Scalar, all_of, conjuncts, substituted

_BLOAT: Final = 100
"""The maximum number of nodes by which merging may grow scalars (the default of Calcite's ``bloat``)."""


def call(name: str, *operands: Scalar) -> Call:
    """A call of a function, whose operands are cast as the binder would."""
    signature = FUNCTIONS[name].types(CallShape(operands, ()))
    assert signature is not None, f"{name} takes {', '.join(str(each.type) for each in operands)}"
    pairs = zip(operands, signature.operands, strict=True)
    cast = tuple(
        each
        if with_nullability(kind, each.type.nullable) == each.type
        else Cast(each, type=with_nullability(kind, each.type.nullable), is_implicit=True)
        for each, kind in pairs
    )
    return Call(name, cast, type=signature.result)


def either(conditions: Sequence[Scalar]) -> Scalar:
    """The disjunction of one or more conditions."""
    return conditions[0] if len(conditions) == 1 else call("OR", *conditions)


def factored(condition: Scalar) -> Scalar:
    """A disjunction with what its alternatives have in common outside: ``a AND (b OR c)``; others as they are."""
    if not isinstance(condition, Call) or condition.function != "OR":
        return condition
    alternatives = [conjuncts(each) for each in condition.operands]
    common = [each for each in alternatives[0] if all(each in others for others in alternatives[1:])]
    if not common:
        return condition
    rests = [[each for each in parts if each not in common] for parts in alternatives]
    return all_of(common if not all(rests) else [*common, either([all_of(rest) for rest in rests])])


def merged(scalars: Sequence[Scalar], columns: Sequence[Scalar]) -> list[Scalar] | None:
    """Scalars over the columns of a projection, as scalars over its input; None where they would become much larger.

    A column that is used twice would then be computed twice, and with views over views 4, 8, 16 times.
    """
    made = [substituted(each, columns) for each in scalars]
    return made if _size(made) <= _size(scalars) + _size(columns) + _BLOAT else None


def _size(scalars: Iterable[Scalar]) -> int:
    return sum(1 for each in scalars for _ in each.walk())


def without_null_branch(condition: Scalar) -> Scalar:
    """A condition of ``WHERE`` with comparisons of ``CASE WHEN a THEN b ELSE NULL END`` by ``a AND`` one of ``b``."""

    def compared(node: Scalar) -> Scalar:
        if not isinstance(node, Call) or len(node.operands) != 2:
            return node
        case, constant = node.operands
        if not isinstance(case, Case):
            return node
        (first, *others), otherwise = case.branches, case.otherwise
        is_null = isinstance(otherwise, Literal) and otherwise.value is None
        if others or not is_null or not isinstance(constant, Literal) or node.function not in _COMPARISONS:
            return node
        return all_of([first.condition, replace(node, operands=(first.result, constant))])

    return condition.transform(compared)


_COMPARISONS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
