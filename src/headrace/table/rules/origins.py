"""Lineage of columns: the columns of tables that the columns of a relation come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from headrace.graph.specs import ColumnOrigin
from headrace.table.logical import relations as logical
from headrace.table.logical.match import LogicalMatch, PatternRef
from headrace.table.logical.relations import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalJoin,
    LogicalOverAggregate,
    LogicalWindowTableFunction,
    Relation,
    Scan,
)
from headrace.table.logical.scalars import Cast, InputRef, Scalar, input_refs
from headrace.table.rules.group_windows import LogicalGroupWindowAggregate
from headrace.table.rules.temporal import LogicalTemporalJoin

Origins = frozenset[ColumnOrigin]


def column_origins(relation: Relation) -> tuple[Origins, ...]:
    """The columns of tables that each column of a relation comes from.

    Conditions that only choose rows are not origins. Of a relation without a rule, whose columns are not those of its
    inputs, each column may come from all of them.
    """
    rule = next((_RULES[kind] for kind in type(relation).__mro__ if kind in _RULES), _unknown)
    return rule(relation)


def _unknown(relation: Relation) -> tuple[Origins, ...]:
    inputs = [column_origins(each) for each in relation.inputs]
    width = len(relation.schema)
    if len(inputs) == 1 and len(inputs[0]) <= width:
        every = _changed(inputs[0])
        return (*inputs[0], *[every] * (width - len(inputs[0])))
    return (_changed(origins for each in inputs for origins in each),) * width


def _changed(origins: Iterable[Origins]) -> Origins:
    """The origins of values that are computed from others."""
    return frozenset(replace(each, is_same=False) for found in origins for each in found)


def _scan(scan: Scan) -> tuple[Origins, ...]:
    table = ".".join(scan.path)
    return tuple(frozenset({ColumnOrigin(table, name)}) for name in scan.columns.names)


def _project(project: logical.Project) -> tuple[Origins, ...]:
    below = column_origins(project.input)
    return tuple(_of_scalar(each, below) for each in project.expressions)


def _of_scalar(scalar: Scalar, below: Sequence[Origins]) -> Origins:
    if isinstance(scalar, InputRef):
        return below[scalar.index]
    if isinstance(scalar, Cast) and isinstance(scalar.operand, InputRef):
        return _changed([below[scalar.operand.index]])
    return _changed(below[index] for index in input_refs(scalar))


def _aggregate(aggregate: LogicalAggregate) -> tuple[Origins, ...]:
    below = column_origins(aggregate.input)
    calls = [_changed(below[index] for index in call.columns) for call in aggregate.calls]
    made = [*(below[index] for index in aggregate.group), *calls]
    return (*made, *[frozenset()] * (len(aggregate.schema) - len(made)))


def _window(window: LogicalWindowTableFunction) -> tuple[Origins, ...]:
    below = column_origins(window.input)
    return (*below, *[_changed([below[window.time_column]])] * (len(window.schema) - len(below)))


def _group_window(aggregate: LogicalGroupWindowAggregate) -> tuple[Origins, ...]:
    below = column_origins(aggregate.input)
    time = _changed([below[aggregate.time_column]])
    keys = [time if at == aggregate.window else below[index] for at, index in enumerate(aggregate.group)]
    calls = [_changed(below[index] for index in call.columns) for call in aggregate.calls]
    return (*keys, *calls, *[time] * (len(aggregate.schema) - len(keys) - len(calls)))


def _over(over: LogicalOverAggregate) -> tuple[Origins, ...]:
    below = column_origins(over.input)
    return (*below, *(_changed(below[index] for index in call.operands) for call in over.calls))


def _match(match: LogicalMatch) -> tuple[Origins, ...]:
    below, clauses = column_origins(match.input), match.clauses
    before, behind = ([below[index] for index in columns] for columns in clauses.columns(match.input.schema))
    nodes = ((node for node in each.expression.walk() if isinstance(node, PatternRef)) for each in clauses.measures)
    return (*before, *(_changed(below[node.index] for node in of_measure) for of_measure in nodes), *behind)


def _join(join: LogicalJoin | LogicalTemporalJoin) -> tuple[Origins, ...]:
    both = (*column_origins(join.left), *column_origins(join.right))
    return both[: len(join.schema)]


def _correlate(join: LogicalCorrelate) -> tuple[Origins, ...]:
    """The origins of both sides. A right column that comes from no table is made of the left ones that it reads."""
    left = column_origins(join.left)
    made = _changed(left[index] for index in join.required)
    return (*left, *(found or made for found in column_origins(join.right)))[: len(join.schema)]


def _union(operation: logical.SetOperation) -> tuple[Origins, ...]:
    arms = [column_origins(each) for each in operation.arms]
    return tuple(frozenset().union(*columns) for columns in zip(*arms, strict=True))


_RULES: Final[dict[type[Relation], Callable[[Any], tuple[Origins, ...]]]] = {
    Scan: _scan,
    logical.Project: _project,
    LogicalAggregate: _aggregate,
    LogicalWindowTableFunction: _window,
    LogicalOverAggregate: _over,
    LogicalGroupWindowAggregate: _group_window,
    LogicalJoin: _join,
    LogicalTemporalJoin: _join,
    LogicalCorrelate: _correlate,
    LogicalMatch: _match,
    logical.SetOperation: _union,
}
