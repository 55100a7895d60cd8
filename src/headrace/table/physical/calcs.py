"""Merging of consecutive projections and filters into one ``Calc``."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.functions.table import is_deterministic
from headrace.table.logical.scalars import Call, InputRef, Scalar, all_of
from headrace.table.physical.basic import Calc
from headrace.table.physical.node import PhysicalNode
from headrace.table.rules.conditions import merged


def projected(node: PhysicalNode, expressions: Sequence[Scalar], names: Sequence[str]) -> PhysicalNode:
    """A node with columns computed from another's."""
    calc = Calc(node, tuple(expressions), tuple(names))
    if isinstance(node, Calc) and (found := _over_input(expressions, node)) is not None:
        calc = Calc(node.input, tuple(found), tuple(names), node.condition)
    return calc.input if calc.is_identity else calc


def filtered(node: PhysicalNode, condition: Scalar) -> PhysicalNode:
    """A node with the rows of another that meet a condition."""
    if isinstance(node, Calc) and (found := _over_input([condition], node)) is not None:
        parts = found if node.condition is None else [node.condition, *found]
        return Calc(node.input, node.expressions, node.names, all_of(parts))
    return Calc(node, InputRef.all_of(node.schema), node.schema.names, condition)


def _over_input(scalars: Sequence[Scalar], calc: Calc) -> list[Scalar] | None:
    """Scalars over the columns of a Calc, as scalars over its input; None where those are much larger."""
    return merged(scalars, calc.expressions) if all(map(_is_mergeable, calc.expressions)) else None


def _is_mergeable(scalar: Scalar) -> bool:
    """Return whether an expression may move to the node above: only if it is deterministic."""
    return is_deterministic(scalar) or (isinstance(scalar, Call) and scalar.function == "PROCTIME")
