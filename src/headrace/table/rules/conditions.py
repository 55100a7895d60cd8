"""Conditions, and the scalars in them."""

from collections.abc import Sequence

from headrace.table.functions.definitions import Determinism
from headrace.table.functions.table import definition_of_call
from headrace.table.logical.scalars import BOOLEAN, Call, Scalar, conjuncts


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    """The conjunction of one or more conditions; nested ``AND`` are flattened."""
    parts = tuple(part for condition in conditions for part in conjuncts(condition))
    if len(parts) == 1:
        return parts[0]
    nullable = any(part.type.nullable for part in parts)
    return Call("AND", parts, type=BOOLEAN if nullable else BOOLEAN.not_null())


def is_deterministic(scalar: Scalar) -> bool:
    """Return whether a scalar is deterministic, so that it may be evaluated twice or not at all."""
    definitions = (definition_of_call(node) for node in scalar.walk() if isinstance(node, Call))
    return all(each is None or each.determinism is not Determinism.NEVER for each in definitions)
