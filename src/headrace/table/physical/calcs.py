"""Merging of consecutive projections and filters into one ``Calc``."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.logical.scalars import InputRef, Scalar, substituted
from headrace.table.physical.basic import Calc
from headrace.table.physical.node import PhysicalNode
from headrace.table.rules.conditions import all_of, is_deterministic


def projected(node: PhysicalNode, expressions: Sequence[Scalar], names: Sequence[str]) -> PhysicalNode:
    """A node with columns computed from another's."""
    if isinstance(node, Calc) and all(map(is_deterministic, node.expressions)):
        expressions = [substituted(each, node.expressions) for each in expressions]
        calc = Calc(node.input, tuple(expressions), tuple(names), node.condition)
    else:
        calc = Calc(node, tuple(expressions), tuple(names))
    return calc.input if calc.is_identity else calc


def filtered(node: PhysicalNode, condition: Scalar) -> PhysicalNode:
    """A node with the rows of another that meet a condition."""
    if isinstance(node, Calc) and all(map(is_deterministic, node.expressions)):
        condition = substituted(condition, node.expressions)
        parts = [condition] if node.condition is None else [node.condition, condition]
        return Calc(node.input, node.expressions, node.names, all_of(parts))
    return Calc(node, InputRef.all_of(node.schema), node.schema.names, condition)
