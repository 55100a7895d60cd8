"""The lineage of a job: its datasets with their schemas, and the flow from those it reads to those it writes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.common.messages import fields_of
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.expressions import Bound, BoundColumn
from headrace.expressions.evaluation import fields_in
from headrace.graph.join_specs import BroadcastJoinSpec
from headrace.graph.row_specs import ExpectationSpec, RecordTimesSpec
from headrace.graph.specs import (
    ColumnOrigin,
    InputSchema,
    PassingSpec,
    RollingAggregateSpec,
    RollingReduceSpec,
    SelectSpec,
    SinkSpec,
    SourceSpec,
)
from headrace.graph.stream_graph import Node
from headrace.graph.window_specs import AggregatedWindowSpec, GlobalAggregateSpec, GroupAggregateSpec
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.join.bounded_rows import SourceRows
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


@dataclass(frozen=True, slots=True)
class LineageField:
    """A field of a dataset.

    Attributes:
        name: its name.
        type: its type.
        origins: the fields of datasets that it comes from, if it is written; None where that is not known.
    """

    name: str
    type: str
    origins: "tuple[FieldOrigin, ...] | None" = None


@dataclass(frozen=True, slots=True, order=True)
class FieldOrigin:
    """A field that another one comes from.

    Attributes:
        dataset: the dataset that it is of.
        field: its name.
        is_same: whether values are taken over as they are.
    """

    dataset: LineageDataset
    field: str
    is_same: bool


@dataclass(frozen=True, slots=True)
class LineageVertex:
    """A source or a sink of a job.

    Attributes:
        uid: its uid.
        name: its name.
        datasets: what it reads or writes; empty where others cannot know it.
        fields: the fields of its records.
        inputs: the uids of the sources whose records reach it, if it is a sink.
    """

    uid: str
    name: str
    datasets: tuple[LineageDataset, ...]
    fields: tuple[LineageField, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """The lineage of a job (Flink's ``LineageGraph``).

    Attributes:
        job: the name of the job.
        sources: what it reads.
        sinks: what it writes.
    """

    job: str
    sources: tuple[LineageVertex, ...]
    sinks: tuple[LineageVertex, ...]


def lineage_of(plan: JobPlan) -> LineageGraph:
    """The lineage of a job."""
    lineage = _Lineage(plan)
    sources = [lineage.source(each) for each in plan.operators() if each.node.is_source]
    sources += [vertex for each in plan.operators() for vertex in lineage.build_sides(each)]
    sinks = tuple(lineage.sink(each) for each in plan.operators() if each.node.is_sink)
    return LineageGraph(plan.name, tuple(sources), sinks)


class _Lineage:
    def __init__(self, plan: JobPlan) -> None:
        self._columns = columns_by_node(plan)
        self._reached = _sources_by_node(plan)
        self._datasets: dict[str, tuple[LineageDataset, ...]] = {}

    def source(self, operator: PlannedOperator) -> LineageVertex:
        spec = operator.node.spec
        assert isinstance(spec, SourceSpec)
        for name in (operator.uid, spec.table):
            self._datasets[name] = spec.source.datasets
        fields = tuple(LineageField(name, str(kind)) for name, kind in fields_of(operator.node.type_of(None)))
        return LineageVertex(operator.uid, operator.node.name, spec.source.datasets, fields)

    def build_sides(self, operator: PlannedOperator) -> Iterator[LineageVertex]:
        """The sources that an operator reads by itself."""
        for uid, rows in _read_by(operator):
            self._datasets[rows.table] = rows.source.datasets
            fields = tuple(LineageField(name, str(kind)) for name, kind in fields_of(rows.type))
            yield LineageVertex(uid, rows.table.rpartition(".")[2], rows.source.datasets, fields)

    def sink(self, operator: PlannedOperator) -> LineageVertex:
        spec = operator.node.spec
        assert isinstance(spec, SinkSpec)
        columns = spec.origins or self._columns[operator.node.id]
        pairs = zip(fields_of(operator.schemas[0].record_type), columns, strict=True)
        fields = tuple(LineageField(name, str(kind), self._origins(origins)) for (name, kind), origins in pairs)
        inputs = self._reached[operator.node.id]
        return LineageVertex(operator.uid, operator.node.name, spec.sink.datasets, fields, inputs)

    def _origins(self, origins: Origins) -> tuple[FieldOrigin, ...] | None:
        return None if origins is None else tuple(sorted(set(self._of_datasets(origins))))

    def _of_datasets(self, origins: frozenset[ColumnOrigin]) -> Iterator[FieldOrigin]:
        for each in origins:
            for dataset in self._datasets.get(each.source, ()):
                yield FieldOrigin(dataset, each.column, each.is_same)


def _sources_by_node(plan: JobPlan) -> dict[int, tuple[str, ...]]:
    """The uids of the sources whose records reach each operator."""
    found: dict[int, tuple[str, ...]] = {}
    for operator in plan.operators():
        before = [uid for edge in operator.node.inputs for uid in found[edge.source]]
        before += [uid for uid, _ in _read_by(operator)]
        found[operator.node.id] = (operator.uid,) if operator.node.is_source else tuple(dict.fromkeys(before))
    return found


def _read_by(operator: PlannedOperator) -> Iterator[tuple[str, SourceRows]]:
    """The sources that an operator reads by itself, each with a uid."""
    if isinstance(operator.node.spec, BroadcastJoinSpec):
        for number, rows in enumerate(operator.node.spec.join.build.sources):
            yield f"{operator.uid}/{number}", rows
