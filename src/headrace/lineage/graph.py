"""The lineage of a job: its datasets with their schemas, and the flow from those it reads to those it writes."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.common.messages import fields_of
from headrace.connectors.datasets import LineageDataset
from headrace.graph.join_specs import BroadcastJoinSpec
from headrace.graph.specs import ColumnOrigin, SinkSpec, SourceSpec
from headrace.lineage.columns import Origins, columns_by_node
from headrace.operators.join.bounded_rows import SourceRows
from headrace.plan.job_plan import JobPlan, PlannedOperator


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
