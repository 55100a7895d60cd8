"""Conditions: several as one, and whether they may be computed twice."""

from collections.abc import Sequence

from headrace.table.functions.definitions import Determinism
from headrace.table.functions.table import FUNCTIONS
from headrace.table.logical.scalars import BOOLEAN, Call, Scalar, conjuncts


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    """The condition that all of some are true, of which there is at least one; nested ones become one."""
    parts = tuple(part for condition in conditions for part in conjuncts(condition))
    if len(parts) == 1:
        return parts[0]
    nullable = any(part.type.nullable for part in parts)
    return Call("AND", parts, type=BOOLEAN if nullable else BOOLEAN.not_null())


def is_deterministic(scalar: Scalar) -> bool:
    """Return whether a scalar gives the same for the same row, so that it may be computed twice or not at all."""
    functions = (node.function for node in scalar.walk() if isinstance(node, Call))
    definitions = (FUNCTIONS.get(function) for function in functions)
    return all(each is None or each.determinism is not Determinism.NEVER for each in definitions)
