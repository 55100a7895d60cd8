"""The columns by which rows are distributed among the tasks of batch mode, and where Flink's plans distribute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

from headrace.operators.join.results import JoinType
from headrace.table.explain.phases import Phase
from headrace.table.logical.scalars import InputRef
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.joins import HashJoin, NestedLoopJoin
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.row_counts import size_of

Distributions = tuple[tuple[int, ...], ...]
"""Sets of columns by which rows are distributed; the empty one for a single task."""


@singledispatch
def distributions(_: PhysicalNode) -> Distributions:
    """The distributions that the rows of a node have; none where they are unknown."""
    return ()


@distributions.register
def _of_phase(phase: Phase) -> Distributions:
    return () if phase.distributed is None else (phase.distributed,)


@distributions.register
def _of_calc(calc: Calc) -> Distributions:
    places = {each.index: at for at, each in enumerate(calc.expressions) if isinstance(each, InputRef)}
    known = [[places.get(index) for index in each] for each in distributions(calc.input)]
    return tuple(tuple(at for at in each if at is not None) for each in known if None not in each)


@distributions.register
def _of_join(join: HashJoin) -> Distributions:
    if not join.keys.left or join.is_broadcast or join.kind is JoinType.FULL:
        return ()
    width = len(join.left.schema)
    left, right = join.keys.left, tuple(index + width for index in join.keys.right)
    if join.kind in (JoinType.SEMI, JoinType.ANTI, JoinType.LEFT):
        return (left,)
    return (right,) if join.kind is JoinType.RIGHT else (left, right)


def is_distributed(node: PhysicalNode, group: Sequence[int]) -> bool:
    """Return whether rows of a group are in one task already, since they were brought together by its columns."""
    return any(set(each) <= set(group) and bool(each) == bool(group) for each in distributions(node))


def gathered(node: PhysicalNode) -> PhysicalNode:
    """The input of a sort, brought to one task where its rows are the smallest."""
    if not isinstance(node, Exchange) or not isinstance(node.input, Calc) or not _widens(node.input):
        return node
    return replace(node.input, input=replace(node, input=node.input.input))


def _widens(calc: Calc) -> bool:
    """Return whether a projection keeps all rows and makes them larger."""
    return calc.condition is None and size_of(calc.schema) > size_of(calc.input.schema)


def distributed(node: PhysicalNode) -> PhysicalNode:
    """An input of a join, distributed where its rows are the smallest, and only once."""
    if not isinstance(node, Exchange) or not node.keys:
        return node
    below, keys = node.input, node.keys
    if keys in distributions(below):
        return below
    if isinstance(below, Calc) and _widens(below):
        columns = [below.expressions[index] for index in keys]
        places = tuple(each.index for each in columns if isinstance(each, InputRef))
        if len(places) == len(keys):
            return replace(below, input=distributed(Exchange(below.input, places)))
    if isinstance(below, NestedLoopJoin):
        probe = 1 if below.builds_left else 0
        shift = probe * len(below.left.schema)
        inputs = list(below.inputs)
        if all(0 <= index - shift < len(inputs[probe].schema) for index in keys):
            places = tuple(index - shift for index in keys)
            inputs[probe] = distributed(Exchange(inputs[probe], places))
            return below.with_inputs(inputs)
    return node
