"""Physical nodes of sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.logical_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from headrace.common.typeinfo import TypeInformation
from headrace.graph.changelog_specs import UpsertMaterializeSpec
from headrace.graph.row_specs import ConstraintsSpec
from headrace.graph.specs import ColumnOrigin, SinkSpec
from headrace.operators.constraints import Enforcement, LengthLimit, Part, Place
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.table_sink import GraphSink, TableSink
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Sink as LogicalSink
from headrace.table.logical.schema import Schema
from headrace.table.options import NESTED_CONSTRAINT_ENFORCER, NOT_NULL_ENFORCER, TYPE_LENGTH_ENFORCER
from headrace.table.physical.basic import expected
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key, column, record_type
from headrace.table.rules.origins import column_origins


@dataclass(frozen=True)
class Sink(PhysicalNode):
    """Writes rows into a table.

    Attributes:
        materializes: whether rows pass an upsert materializer, since their key is not that of the table.
        unique_key: the columns by which the materializer identifies rows; none for all columns.
        is_staged: whether no row can be seen before the job has finished.
    """

    name: ClassVar[str] = "Sink"
    mode: ChangelogMode = field(default=ChangelogMode(frozenset()), kw_only=True)
    input: PhysicalNode
    target: LogicalSink
    sink: TableSink
    materializes: bool = False
    unique_key: tuple[int, ...] = ()
    is_staged: bool = False

    @property
    def schema(self) -> Schema:
        return self.target.columns

    @property
    def called(self) -> str:
        """The name of the sink in error messages."""
        if isinstance(self.sink, GraphSink):
            return "The changelog stream"
        return f"Table sink '{'.'.join(self.target.path)}'"

    @property
    def at(self) -> str:
        """Its place in the statement, as far as it is known."""
        return self.target.at

    @property
    def identity(self) -> str:
        if isinstance(self.sink, GraphSink):  # its table has a generated name, which depends on the others
            return f"{self.name}(stream=[{record_type(self.schema)}])"
        return super().identity

    def terms(self, text: ScalarText) -> Terms:
        yield "table", ".".join(self.target.path)
        if self.target.targets:
            yield "targetColumns", ",".join(f"[{index}]" for index in self.target.targets)
        yield "fields", names_text(self.input.schema.names)
        if self.materializes:
            yield "upsertMaterialize", "true"
        if self.target.on_conflict is not None:
            yield "conflictStrategy", self.target.on_conflict

    def _named(self, builder: GraphBuilder, edges: Edges) -> Edges:
        """The rows under the column names of the table."""
        given, columns = self.input.schema, self.target.columns
        if _same_names(builder, edges, record_type(columns)):
            return edges
        return builder.select(edges, [column(given, index) for index in range(len(given))], columns, "Rename")

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        edges = with_constraints(builder, self._named(builder, inputs[0]), self.target.columns)
        expectations, columns = self.target.expectations, self.target.columns
        edges = expected(builder, edges, expectations, columns, self.input.mode)
        if self.materializes:
            keyed = by_key(edges, self.input.schema, self.target.primary_key)
            spec = UpsertMaterializeSpec(
                unique_key=self.unique_key,
                key_fields=self.target.primary_key,
                conflict=self.target.on_conflict or "DEDUPLICATE",
                ttl=builder.state_ttl,
            )
            edges = builder.add(spec, "SinkMaterializer", keyed)
        if isinstance(self.sink, GraphSink):
            return edges
        sink = self.sink.create_sink([read.key for read in self.target.metadata])
        made = builder.add(
            SinkSpec(sink, self._origins()),
            f"Sink: {self.target.path[-1]}",
            self._spread(self._arranged(builder, edges)),
        )
        if self.sink.parallelism is not None:
            builder.graph.update(made[0].source, parallelism=self.sink.parallelism)
        return made

    def _origins(self) -> tuple[frozenset[ColumnOrigin], ...]:
        """The origins of the columns of records, in which metadata columns are last."""
        found, (_, places) = column_origins(self.target.input), self._arrangement
        return tuple(found[place] for place in places)

    def _spread(self, edges: Edges) -> Edges:
        """The edges, by the key of the table where another number of tasks would mix up the changes of a row."""
        if self.sink.parallelism is None or self.input.mode.is_insert_only or not self.input.mode.kinds:
            return edges
        if not self.target.primary_key:
            raise PlanningError(
                f"{self.called} has 'sink.parallelism', and rows of it are updated or deleted, which needs a primary "
                "key to keep their order: add PRIMARY KEY (...) NOT ENFORCED to the table, or leave the option out"
            )
        schema, places = self._arrangement
        return by_key(edges, schema, [places.index(index) for index in self.target.primary_key])

    @property
    def _arrangement(self) -> tuple[Schema, list[int]]:
        """The columns of the table with metadata columns last, and their places in it."""
        metadata = [read.index for read in self.target.metadata]
        places = [*(index for index in range(len(self.schema)) if index not in metadata), *metadata]
        return Schema(tuple(self.schema[index] for index in places)), places

    def _arranged(self, builder: GraphBuilder, edges: Edges) -> Edges:
        """The rows in the columns of the table, with metadata columns last."""
        given, (wanted, places) = self.input.schema, self._arrangement
        if places == sorted(places) and record_type(given).field_names == record_type(wanted).field_names:
            return edges
        return builder.select(edges, [column(given, index) for index in places], wanted, "Arrange")


def _same_names(builder: GraphBuilder, edges: Edges, wanted: TypeInformation) -> bool:
    return all(builder.graph.record_type(edge).field_names == wanted.field_names for edge in edges)


def with_constraints(builder: GraphBuilder, edges: Edges, columns: Schema) -> Edges:
    """The edges of rows that meet the constraints of columns.

    Raises:
        PlanningError: when values in collections would have to be trimmed.
    """
    of_nulls, of_lengths, of_parts = map(
        builder.settings.get, (NOT_NULL_ENFORCER, TYPE_LENGTH_ENFORCER, NESTED_CONSTRAINT_ENFORCER)
    )
    if of_parts == "ROWS_AND_COLLECTIONS" and of_lengths == "TRIM_PAD":
        raise PlanningError(
            "Trimming and/or padding is not supported if constraint checking is enabled on types nested in "
            f"collections: set '{TYPE_LENGTH_ENFORCER.key}' to 'ERROR', or '{NESTED_CONSTRAINT_ENFORCER.key}' to 'ROWS'"
        )
    places = [
        found
        for index, column in enumerate(columns)
        for found in _places(Place(column.name, index), column.type, of_parts)
    ]
    required = tuple(place for place, kind in places if not kind.nullable)
    limits = () if of_lengths == "IGNORE" else tuple(_limits(places))
    if not required and not limits:
        return edges
    lengths = Enforcement(of_lengths) if limits else Enforcement.TRIM_PAD
    spec = ConstraintsSpec(required, Enforcement(of_nulls), limits, lengths)
    return builder.add(spec, "ConstraintEnforcer", edges)


def _places(place: Place, kind: LogicalType, of_parts: str) -> Iterator[tuple[Place, LogicalType]]:
    """The place of a value and those of its parts, with their types, as far as constraints of parts are enforced."""
    yield place, kind
    for step, name, part in _parts(kind, of_parts):
        yield from _places(Place(place.name + name, place.field, (*place.steps, step)), part, of_parts)


def _parts(kind: LogicalType, of_parts: str) -> Iterator[tuple[int | Part, str, LogicalType]]:
    if isinstance(kind, RowType) and of_parts != "IGNORE":
        for index, (name, part) in enumerate(zip(kind.names, kind.types, strict=True)):
            yield index, f".{name}", part
    elif of_parts == "ROWS_AND_COLLECTIONS":
        steps = {ArrayType: (Part.ELEMENT,), MapType: (Part.KEY, Part.VALUE), MultisetType: (Part.KEY,)}
        for step, part in zip(steps.get(type(kind), ()), kind.children, strict=False):
            yield step, f"[{'element' if isinstance(kind, MultisetType) else step.value}]", part


_FIXED: Final = (TypeRoot.CHAR, TypeRoot.BINARY)
_LIMITED: Final = (*_FIXED, TypeRoot.VARCHAR, TypeRoot.VARBINARY)


def _limits(places: Sequence[tuple[Place, LogicalType]]) -> list[LengthLimit]:
    return [
        LengthLimit(place, kind.size, kind.root in _FIXED)
        for place, kind in places
        if isinstance(kind, AtomicType) and kind.root in _LIMITED and kind.size not in (None, MAX_LENGTH)
    ]
