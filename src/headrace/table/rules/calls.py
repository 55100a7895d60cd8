"""Calls made by rules, typed by the function table as the binder does."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.functions.definitions import CallShape
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import with_nullability
from headrace.table.logical.scalars import Call, Cast, Scalar


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
