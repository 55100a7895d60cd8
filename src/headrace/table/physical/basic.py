"""Physical nodes for sources, projections, filters, watermarks, exchanges and unions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.logical_types import AtomicType, TypeRoot, bigint
from headrace.common.masking import masked
from headrace.common.messages import fields_of
from headrace.connectors.ranges import ColumnsSource
from headrace.connectors.source import Source
from headrace.graph.changelog_specs import ExpandSpec
from headrace.graph.row_specs import ExpectationSpec, RecordTimesSpec
from headrace.graph.specs import ColumnFilterSpec, SelectSpec, SourceSpec, TimestampsSpec
from headrace.operators.record_times import RecordTime
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.picked_columns import PickedColumns
from headrace.table.connectors.table_source import GraphSource, TableSource
from headrace.table.functions.table import is_deterministic
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Expectation, Scan
from headrace.table.logical.scalars import Call, Cast, InputRef, Literal, Scalar, all_of, input_refs
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.logical.watermarks import PLAIN_WATERMARKS, WatermarkOptions
from headrace.table.options import SOURCE_IDLE_TIMEOUT
from headrace.table.physical.changelog_rules import ChangelogRule, UpdateKind, forwarded, modify_of
from headrace.table.physical.keys import NO_KEYS, Keys, one_key, places_of, renamed_keys
from headrace.table.physical.literal_text import literal_text, record_type_text
from headrace.table.physical.node import (
    Edges,
    PassingNode,
    PhysicalNode,
    ScalarText,
    Terms,
    names_text,
    with_unique_names,
)
from headrace.table.physical.scalar_text import binary, calcite_text
from headrace.table.physical.times import UsedTimes, shifted_column
from headrace.table.physical.translation import GraphBuilder, column, compiled, record_type
from headrace.table.rules.conditions import merged
from headrace.table.rules.known_columns import known_value
from headrace.table.rules.searches import constants_of
from headrace.time.watermark_strategy import (
    BoundedOutOfOrderness,
    ColumnarWatermarkGenerator,
    ExpressionWatermarks,
    FieldTimestamps,
    WatermarkStrategy,
)


@dataclass(frozen=True)
class TableSourceScan(PhysicalNode):
    """Reads a table."""

    name: ClassVar[str] = "TableSourceScan"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(lambda node, _: modify_of(node.source.changelog_mode))
    scan: Scan
    source: TableSource

    @property
    def schema(self) -> Schema:
        return self.scan.columns

    @property
    def upsert_keys(self) -> Keys:
        return one_key(self.scan.primary_key) if self.scan.primary_key else NO_KEYS

    def terms(self, text: ScalarText) -> Terms:
        projected = [f"project=[{names_text(self.schema.names)}], metadata=[]"] if self.scan.is_projected else []
        yield "table", f"[{', '.join([*self.scan.path, *self._abilities(projected)])}]"
        yield "fields", names_text(self.schema.names)
        options = [pair for hint in self.scan.hints if hint.name == "OPTIONS" for pair in hint.options]
        if options:
            yield (
                "hints",
                f"[[OPTIONS options:{{{', '.join(f'{key}={masked(key, value)}' for key, value in options)}}}]]",
            )

    def _abilities(self, projected: Sequence[str] = ()) -> Iterator[str]:
        """The restrictions that the connector applies, as plans show them."""
        scan, names = self.scan, self.schema.names
        if scan.partitions is not None:
            shown = (_partition_text(scan.partition_keys, values) for values in scan.partitions)
            yield f"partitions=[{', '.join(shown)}]"
        if scan.filters:
            texts = [calcite_text(binary(each), names) for each in scan.filters]
            yield f"filter=[{reduce(lambda left, right: f'and({left}, {right})', texts)}]"
        yield from projected
        if scan.limit is not None:
            yield f"limit=[{scan.limit}]"
        if scan.expectations:
            yield f"expect=[{', '.join(calcite_text(binary(each.condition), names) for each in scan.expectations)}]"

    @property
    def identity(self) -> str:
        if self.scan.hints:
            return replace(self, scan=replace(self.scan, hints=())).identity
        if self.scan.partitions is not None:  # there may be others when the statement is planned again
            return replace(self, scan=replace(self.scan, partitions=None)).identity
        if isinstance(self.source, GraphSource):  # its table has a generated name, which depends on the others
            return f"{self.name}(stream=[{self.source.record_type}], fields=[{names_text(self.schema.names)}])"
        if self.scan.declared is not None:  # other columns may be read when the query has changed
            path, names = ", ".join([*self.scan.path, *self._abilities()]), self.scan.declared.names
            return f"{self.name}(table=[[{path}]], fields=[{names_text(names)}])"
        return super().identity

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if isinstance(self.source, GraphSource):
            return self._of_graph(builder, self.source)
        spec = SourceSpec(self.created_source(), self._has_changes, ".".join(self.scan.path))
        edges = builder.add(spec, self.scan.path[-1])
        return expected(builder, edges, self.scan.expectations, self.schema, self.source.changelog_mode)

    def created_source(self) -> Source[Any]:
        """The source of its rows, which are no stream of the program."""
        source = self.source.create_source([read.key for read in self.scan.metadata])
        kind = record_type(self.schema)
        return source if source.produced_type == kind else PickedColumns(source, kind, range(len(self.schema)))

    def _of_graph(self, builder: GraphBuilder, source: GraphSource) -> Edges:
        """The columns of an operator's records, cast to their declared types; their timestamps may be one more."""
        given = Schema(tuple(Field(name, kind.logical_type) for name, kind in fields_of(source.record_type)))
        edges, places = source.edges, [*source.places, *[len(given)] * len(self.scan.metadata)]
        for read in self.scan.metadata:
            if read.key != "rowtime":
                raise PlanningError(f"streams have the metadata 'rowtime' alone, and not '{read.key}'")
        if self.scan.metadata:
            name = "$rowtime"
            given = Schema((*given, Field(name, AtomicType(TypeRoot.TIMESTAMP_LTZ, 3))))
            edges = builder.add(RecordTimesSpec((RecordTime.EVENT_TIME,), (name,)), "RecordTimes", edges)
        columns = [
            compiled(Cast(InputRef(place, type=given.types[place]), type=kind.as_nullable()), given, builder)
            if given.types[place].as_nullable() != kind.as_nullable()
            else column(given, place)
            for place, kind in zip(places, self.schema.types, strict=True)
        ]
        spec = SelectSpec(tuple(columns), record_type(self.schema), self._has_changes)
        return expected(
            builder,
            builder.add(spec, self.scan.path[-1], edges),
            self.scan.expectations,
            self.schema,
            self.source.changelog_mode,
        )

    @property
    def _has_changes(self) -> bool:
        return not self.source.changelog_mode.is_insert_only


def _partition_text(keys: Sequence[str], values: Sequence[str | None]) -> str:
    pairs = (f"{key}={'null' if value is None else value}" for key, value in zip(keys, values, strict=True))
    return f"{{{', '.join(pairs)}}}"


@dataclass(frozen=True)
class Calc(PhysicalNode):
    """Projects the rows that meet a condition.

    Attributes:
        given: the names of the columns of its input, where plans show others there.
        is_pushed: whether plans show it without constants, since it was pushed down when these were known already.
    """

    name: ClassVar[str] = "Calc"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        forwarded, needs=lambda node, _index, wanted: None if node.splits_updates(wanted) else wanted
    )
    input: PhysicalNode
    expressions: tuple[Scalar, ...]
    names: tuple[str, ...]
    condition: Scalar | None = None
    given: tuple[str, ...] = ()
    is_pushed: bool = False

    @cached_property
    def schema(self) -> Schema:
        return with_unique_names(Schema(tuple(map(Scalar.as_field, self.expressions, self.names))))

    @property
    def is_identity(self) -> bool:
        """Return whether it changes nothing."""
        return self.only_renames and self.names == self.input.schema.names

    @property
    def only_renames(self) -> bool:
        """Return whether it changes nothing but names."""
        places = [each.index for each in self.expressions if isinstance(each, InputRef)]
        is_whole = len(places) == len(self.expressions) and places == list(range(len(self.input.schema)))
        return self.condition is None and is_whole

    @property
    def is_trivial(self) -> bool:
        """Return whether its columns are the first ones of its input by the same names."""
        return all(
            isinstance(each, InputRef) and each.index == index and self.names[index] == self.input.schema.names[index]
            for index, each in enumerate(self.expressions)
        )

    def splits_updates(self, wanted: UpdateKind) -> bool:
        """Return whether its condition may keep the row before an update and drop the one after it.

        A consumer that gets no ``UPDATE_BEFORE`` would then keep the row that is gone.
        """
        if self.condition is None or wanted is not UpdateKind.ONLY_AFTER:
            return False
        read = set(input_refs(self.condition))
        return not any(read <= key for key in self.input.upsert_keys)

    @property
    def upsert_keys(self) -> Keys:
        return renamed_keys(self.input.upsert_keys, places_of(self.expressions))

    def terms(self, text: ScalarText) -> Terms:
        names, given = self.schema.names, self.given or self.input.schema.names
        known = {} if self.is_pushed else constants_of(self.condition)
        expressions = [_with_constant(each, known) for each in self.expressions]
        shown = (text(materialized(each, self.input.schema), given) for each in expressions)
        yield "select", names_text([s if s == name else f"{s} AS {name}" for s, name in zip(shown, names, strict=True)])
        if self.condition is not None:
            yield "where", text(materialized(self.condition, self.input.schema), given)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        times = UsedTimes.of(self.expressions if self.condition is None else (*self.expressions, self.condition))
        edges, given = times.added(builder, inputs[0], self.input.schema)
        condition = None
        if self.condition is not None:
            condition = compiled(times.read(self.condition, self.input.schema), given, builder)
        if condition is not None and self.is_trivial and len(self.expressions) == len(given):
            return builder.add(ColumnFilterSpec(condition), "Filter", edges)
        columns = [compiled(times.read(each, self.input.schema), given, builder) for each in self.expressions]
        spec = SelectSpec(tuple(columns), record_type(self.schema), condition=condition)
        return builder.add(spec, self.name, edges)


def _with_constant(scalar: Scalar, constants: Mapping[int, Literal]) -> Scalar:
    """A column as the constant that a condition compares it with."""
    if not isinstance(scalar, InputRef) or scalar.index not in constants:
        return scalar
    return known_value(scalar, constants[scalar.index])


_MATERIALIZED: Final = frozenset(("PROCTIME_MATERIALIZE",))
"""Functions that give plain times."""


def materialized(scalar: Scalar, given: Schema) -> Scalar:
    """A scalar with casts of the time attributes that it computes with, which are plain times from there on."""

    def cast(node: Scalar) -> Scalar:
        is_time = isinstance(node, InputRef) and given[node.index].time is not None
        return Cast(node, type=node.type) if is_time else node

    is_cast = isinstance(scalar, Cast) and scalar.type == scalar.operand.type
    if is_cast or isinstance(scalar, InputRef) or (isinstance(scalar, Call) and scalar.function in _MATERIALIZED):
        return scalar
    return scalar.transform(cast)


def expected(
    builder: GraphBuilder, edges: Edges, expectations: Sequence[Expectation], columns: Schema, mode: ChangelogMode
) -> Edges:
    """The edges of rows of which a table expects something."""
    has_upserts = mode.takes_updates and not mode.takes_update_before
    times = UsedTimes.of([each.condition for each in expectations])
    edges, given = times.added(builder, edges, columns)
    for each in expectations:
        condition = compiled(times.read(each.condition, columns), given, builder)
        spec = ExpectationSpec(each.name, condition, each.on_violation, has_upserts=has_upserts)
        edges = builder.add(spec, f"Expect: {each.name}", edges)
    if not times.times:
        return edges
    return builder.select(edges, [column(given, index) for index in range(len(columns))], columns, "WithoutTimes")


@dataclass(frozen=True)
class WatermarkAssigner(PhysicalNode):
    """Makes a column the rowtime attribute, and generates watermarks by an expression."""

    name: ClassVar[str] = "WatermarkAssigner"
    input: PhysicalNode
    rowtime: int
    watermark: Scalar
    options: WatermarkOptions = PLAIN_WATERMARKS

    @cached_property
    def schema(self) -> Schema:
        fields = list(self.input.schema)
        rowtime = fields[self.rowtime]
        fields[self.rowtime] = Field(rowtime.name, rowtime.type, TimeAttribute.ROWTIME)
        return Schema(tuple(fields))

    @property
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        yield "rowtime", names[self.rowtime]
        yield "watermark", text(self.watermark, names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        if isinstance(self.watermark, Call) and self.watermark.function == "SOURCE_WATERMARK":
            if not any(
                isinstance(node, TableSourceScan) and isinstance(node.source, GraphSource) for node in self.walk()
            ):
                raise PlanningError(
                    "SOURCE_WATERMARK() is of tables of streams alone: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
                )
            return inputs[0]
        of_session = builder.settings.get(SOURCE_IDLE_TIMEOUT) or None
        strategy = WatermarkStrategy(
            self._generator(builder),
            FieldTimestamps(self.rowtime),
            of_session if self.options.idle_timeout is None else self.options.idle_timeout,
            self.options.alignment,
        )
        return builder.add(TimestampsSpec(strategy), self.name, *inputs)

    def _generator(self, builder: GraphBuilder) -> ColumnarWatermarkGenerator:
        shifted = shifted_column(self.watermark)
        if shifted is not None and shifted[0].index == self.rowtime and shifted[1] <= 0:
            return BoundedOutOfOrderness(-shifted[1] - 1)  # SQL's watermark is the time itself, not a millisecond less
        return ExpressionWatermarks(compiled(self.watermark, self.input.schema, builder))


@dataclass(frozen=True)
class Exchange(PassingNode):
    """Distributes rows by key.

    It translates to nothing: nodes that need keyed input key it themselves, and this node shows that in plans.

    Attributes:
        keys: the columns; None for any distribution, and empty for a single subtask.
        is_broadcast: whether rows are broadcast to all subtasks.
    """

    name: ClassVar[str] = "Exchange"
    passes_rows: ClassVar[bool] = True
    keys: tuple[int, ...] | None = ()
    is_broadcast: bool = False

    @property
    def upsert_keys(self) -> Keys:
        # Changes of a row keep their order only if all are sent to the same subtask.
        found = self.input.upsert_keys
        return found if not self.keys else frozenset(key for key in found if set(self.keys) <= key)

    def terms(self, text: ScalarText) -> Terms:
        names = [self.schema.names[index] for index in self.keys or ()]
        hashed = f"hash[{names_text(names)}]" if names else "single"
        yield "distribution", "broadcast" if self.is_broadcast else "any" if self.keys is None else hashed


@dataclass(frozen=True)
class Union(PhysicalNode):
    """The rows of several inputs."""

    name: ClassVar[str] = "Union"
    arms: tuple[PhysicalNode, ...]
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns

    def terms(self, text: ScalarText) -> Terms:
        yield "all", "true"
        yield "union", names_text(self.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        wanted = record_type(self.schema)
        places = range(len(wanted.field_names))
        arms = [
            edges
            if record_type(arm.schema) == wanted
            else builder.select(edges, [column(arm.schema, place) for place in places], self.schema, self.name)
            for arm, edges in zip(self.arms, inputs, strict=True)
        ]
        return tuple(edge for edges in arms for edge in edges)


@dataclass(frozen=True)
class ValuesScan(PhysicalNode):
    """Constant rows."""

    name: ClassVar[str] = "Values"
    rows: tuple[tuple[Literal, ...], ...]
    columns: Schema
    shows_type: bool = True
    is_batch: bool = False

    @property
    def schema(self) -> Schema:
        return self.columns

    def terms(self, text: ScalarText) -> Terms:
        if self.shows_type:
            yield "type", record_type_text(self.schema.names, self.schema.types, [None] * len(self.schema))
        rows = (f"{{ {', '.join(map(literal_text, row))} }}" for row in self.rows)
        yield "tuples", f"[{', '.join(rows)}]"
        if self.is_batch:
            yield "values", names_text(self.schema.names)

    def columns_of_rows(self) -> pa.RecordBatch:
        """The rows as columns."""
        schema = layout_of(record_type(self.schema)).schema
        columns = [pa.array([row[index].value for row in self.rows], field.type) for index, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(SourceSpec(ColumnsSource(record_type(self.schema), self.columns_of_rows())), self.name)


@dataclass(frozen=True)
class Expand(PhysicalNode):
    """Several rows for each row, with the number of the grouping set in the last column.

    Attributes:
        projections: the columns of each row; None for a column that is null.
        numbers: their numbers.
        names: the names of the columns.
        shows_last: whether plans show the last column before the number behind it.
    """

    name: ClassVar[str] = "Expand"
    input: PhysicalNode
    projections: tuple[tuple[int | None, ...], ...]
    numbers: tuple[int, ...]
    names: tuple[str, ...]
    shows_last: bool = False

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        fields = []
        for places in zip(*self.projections, strict=True):
            field = given[next(index for index in places if index is not None)]
            fields.append(field.as_nullable() if None in places else field)
        return Schema((*fields, Field("", bigint().not_null()))).renamed(self.names)

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        rows = []
        for projection, number in zip(self.projections, self.numbers, strict=True):
            shown = ["null" if index is None else names[index] for index in projection]
            columns = [s if s == name else f"{s} AS {name}" for s, name in zip(shown, self.names, strict=False)]
            columns.insert(len(columns) - self.shows_last, f"{number} AS {self.names[-1]}")
            rows.append(f"{{{names_text(columns)}}}")
        yield "projects", f"[{names_text(rows)}]"[1:-1]

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(ExpandSpec(self.projections, self.numbers, self.schema.names), self.name, *inputs)


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
