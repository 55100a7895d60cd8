"""Projections and filters become one node where they follow each other."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, Scalar
from headrace.table.physical.basic import Calc
from headrace.table.physical.node import PhysicalNode
from headrace.table.rules.conditions import is_deterministic


def projected(node: PhysicalNode, expressions: Sequence[Scalar], names: Sequence[str]) -> PhysicalNode:
    """A node with columns computed of those of another one."""
    if isinstance(node, Calc) and all(map(is_deterministic, node.expressions)):
        expressions = [substituted(each, node.expressions) for each in expressions]
        calc = Calc(node.input, tuple(expressions), tuple(names), node.condition)
    else:
        calc = Calc(node, tuple(expressions), tuple(names))
    return calc.input if calc.is_identity else calc


def filtered(node: PhysicalNode, condition: Scalar) -> PhysicalNode:
    """A node with the rows of another one of which a condition is true."""
    if isinstance(node, Calc) and all(map(is_deterministic, node.expressions)):
        condition = substituted(condition, node.expressions)
        return Calc(node.input, node.expressions, node.names, both(node.condition, condition))
    schema = node.schema
    columns = tuple(InputRef(i, type=field.type, time=field.time) for i, field in enumerate(schema))
    return Calc(node, columns, schema.names, condition)


def both(first: Scalar | None, second: Scalar) -> Scalar:
    """The condition that two conditions are true, the first one computed first."""
    if first is None:
        return second
    operands = tuple(
        part
        for each in (first, second)
        for part in (each.operands if isinstance(each, Call) and each.function == "AND" else (each,))
    )
    nullable = any(each.type.nullable for each in operands)
    return Call("AND", operands, type=BOOLEAN if nullable else BOOLEAN.not_null())


def substituted(scalar: Scalar, columns: Sequence[Scalar]) -> Scalar:
    """A scalar over what others compute, as one over what they are computed of."""
    return scalar.transform(lambda node: columns[node.index] if isinstance(node, InputRef) else node)
