"""Which columns of the records of a job come from which fields of its sources.

Expressions, built-in aggregates and SQL say where their results come from. What a function does is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.common.messages import fields_of
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation
from headrace.expressions import Bound, BoundColumn
from headrace.expressions.evaluation import fields_in
from headrace.graph.row_specs import ExpectationSpec
from headrace.graph.specs import (
    ColumnOrigin,
    InputSchema,
    PassingSpec,
    RecordTimesSpec,
    RollingAggregateSpec,
    RollingReduceSpec,
    SelectSpec,
    SourceSpec,
)
from headrace.graph.stream_graph import Node
from headrace.graph.window_specs import AggregatedWindowSpec, GlobalAggregateSpec, GroupAggregateSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.plan.job_plan import JobPlan, PlannedOperator

Origins = frozenset[ColumnOrigin] | None
"""The fields of sources that a column comes from; None where that is not known."""

Columns = tuple[Origins, ...]


def columns_by_node(plan: JobPlan) -> dict[int, Columns]:
    """The origins of the columns of what each operator emits by its main output; of a sink, of what it is given."""
    found: dict[int, Columns] = {}
    nodes = {operator.node.id: operator.node for operator in plan.operators()}
    for operator in plan.operators():
        found[operator.node.id] = _columns(operator, nodes, found)
    return found


def _columns(operator: PlannedOperator, nodes: Mapping[int, Node], before: Mapping[int, Columns]) -> Columns:
    node = operator.node
    if isinstance(node.spec, SourceSpec):
        names = (name for name, _ in fields_of(node.type_of(None)))
        return tuple(frozenset({ColumnOrigin(operator.uid, name)}) for name in names)
    given = _input(node, nodes, before)
    if node.is_sink:
        return given
    rule = next((_RULES[kind] for kind in type(node.spec).__mro__ if kind in _RULES), None)
    width = len(fields_of(node.type_of(None)))
    found = () if rule is None else rule(_OperatorInputs(node, operator.schemas[0], given))
    return found if len(found) == width else (None,) * width


def _input(node: Node, nodes: Mapping[int, Node], before: Mapping[int, Columns]) -> Columns:
    """The columns of the first input; those of a union come from all of its members."""
    found = [
        before[edge.source]
        if edge.side_output is None or isinstance(nodes[edge.source].spec, ExpectationSpec)  # whose records all pass
        else (None,) * len(fields_of(nodes[edge.source].type_of(edge.side_output)))
        for edge in node.inputs
        if edge.input_index == 0
    ]
    if len({len(columns) for columns in found}) != 1:
        return (None,) * len(found[0])
    return tuple(_merged(columns) for columns in zip(*found, strict=True))


def _merged(columns: Iterable[Origins]) -> Origins:
    found: frozenset[ColumnOrigin] = frozenset()
    for origins in columns:
        if origins is None:
            return None
        found |= origins
    return found


def _changed(columns: Iterable[Origins]) -> Origins:
    """The origins of values that are computed from columns."""
    merged = _merged(columns)
    return None if merged is None else frozenset(replace(each, is_same=False) for each in merged)


@dataclass(frozen=True, slots=True)
class _OperatorInputs:
    """An operator whose results come from the columns of its first input."""

    node: Node
    records: InputSchema
    columns: Columns


def _passed(step: _OperatorInputs) -> Columns:
    return step.columns


def _folded(_: _OperatorInputs) -> Columns:
    """A function makes the records."""
    return ()


def _rolled(step: _OperatorInputs) -> Columns:
    spec = step.node.spec
    assert isinstance(spec, RollingAggregateSpec)
    if spec.aggregation in ("min_by", "max_by"):
        return step.columns
    names = [name for name, _ in fields_of(step.records.record_type)]
    return tuple(
        _changed([columns]) if spec.field in (None, name, index) else columns
        for index, (name, columns) in enumerate(zip(names, step.columns, strict=True))
    )


def _selected(step: _OperatorInputs) -> Columns:
    assert isinstance(step.node.spec, SelectSpec)
    return tuple(_of_expression(each, step.columns) for each in step.node.spec.columns)


def _of_expression(expression: Bound, columns: Columns) -> Origins:
    if isinstance(expression, BoundColumn):
        return columns[expression.index]
    return _changed(columns[index] for index in sorted(fields_in(expression)))


def _with_times(step: _OperatorInputs) -> Columns:
    assert isinstance(step.node.spec, RecordTimesSpec)
    return (*step.columns, *[frozenset[ColumnOrigin]()] * len(step.node.spec.times))


def _aggregated(step: _OperatorInputs) -> Columns:
    """Keys come first, then the begin and the end of windows, which come from no field, and then aggregates."""
    spec = step.node.spec.aggregate if isinstance(step.node.spec, GlobalAggregateSpec) else step.node.spec
    assert isinstance(spec, AggregatedWindowSpec | GroupAggregateSpec)
    has_key = step.records.key is not None and getattr(spec, "has_key", True)
    keys = _of_key(step.records, step.columns) if has_key else []
    results = [_of_aggregate(each, step.records.record_type, step.columns) for each in spec.aggregates]
    others = len(fields_of(step.node.type_of(None))) - len(keys) - len(results)
    return (*keys, *[frozenset[ColumnOrigin]()] * others, *results)


def _of_key(records: InputSchema, columns: Columns) -> list[Origins]:
    key, kind = records.key, records.record_type
    assert key is not None
    if key.fields is not None and isinstance(kind, CompositeTypeInfo):
        return [columns[kind.field_index(field)] for field in key.fields]
    if key.expression is not None:
        return [_of_expression(key.expression, columns)] * len(key.names or ("key",))
    return [None] * len(key.names or ("key",))


def _of_aggregate(aggregate: object, kind: TypeInformation, columns: Columns) -> Origins:
    if not isinstance(aggregate, Aggregate):
        return None
    return _changed(columns[index] for index in sorted(aggregate.fields_in(kind)))


_RULES: Final[dict[type, Callable[[_OperatorInputs], Columns]]] = {
    PassingSpec: _passed,
    RollingReduceSpec: _folded,
    RollingAggregateSpec: _rolled,
    SelectSpec: _selected,
    RecordTimesSpec: _with_times,
    AggregatedWindowSpec: _aggregated,
    GroupAggregateSpec: _aggregated,
    GlobalAggregateSpec: _aggregated,
}
