"""``VECTOR_SEARCH``: rows with the rows of a table whose vectors are the most similar to theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from headrace.graph.process_specs import VectorSearchSpec
from headrace.operators.join.results import JoinType
from headrace.operators.unnest import ExpandedRows
from headrace.table.functions.types import INT
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Filter, LogicalWatermarkAssigner, Project, Relation, Scan, joined_schema
from headrace.table.logical.scalars import Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.logical.vector_search import METRIC, SCORE, VectorSearch, with_score
from headrace.table.physical.basic import ValuesScan, projected
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, never
from headrace.table.physical.conversion import ConversionContext
from headrace.table.physical.joins import JOIN_NAMES
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, with_unique_names
from headrace.table.physical.temporal_joins import LookedUp
from headrace.table.physical.translation import GraphBuilder, compiled, compiled_all, record_type


@dataclass(frozen=True)
class VectorSearchTableFunction(PhysicalNode):
    """A join of each row with the rows of a table whose vectors are the most similar to one of its columns.

    Attributes:
        table: the table, or columns computed from its rows; not an input, since it is not scanned.
        kind: inner, or left.
        searched: the column of the table's vectors.
        queried: the column of the row's.
        count: how many rows are found, at most.
        config: the configuration of the call.
        condition: which of the rows that are found belong to a row, over the columns of both; None for all.
    """

    name: ClassVar[str] = "VectorSearchTableFunction"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    table: LookedUp
    kind: JoinType
    searched: int
    queried: int
    count: int
    config: tuple[tuple[str, str], ...] = ()
    condition: Scalar | None = None

    @cached_property
    def schema(self) -> Schema:
        return with_unique_names(joined_schema(self.input.schema, with_score(self.table.schema), self.kind))

    def terms(self, text: ScalarText) -> Terms:
        yield "table", ".".join(self.table.scan.scan.path)
        yield "joinType", JOIN_NAMES[self.kind]
        yield "columnToSearch", self.table.scan.schema.names[self._vectors]
        yield "columnToQuery", self.input.schema.names[self.queried]
        yield "topK", str(self.count)
        if self.config:
            yield "config", f"{{{', '.join(f'{key}={value}' for key, value in self.config)}}}"
        if self.condition is not None:
            yield "joinCondition", text(self.condition, self.schema.names)
        yield "select", names_text([*self.input.schema.names, *self._shown(text)])

    def _shown(self, text: ScalarText) -> Sequence[str]:
        names = self.table.shown(text) if self.table.is_computed else self.table.schema.names
        return [*names, SCORE]

    @property
    def _vectors(self) -> int:
        """The column of vectors among those of the scan."""
        column = self.table.expressions[self.searched]
        if not isinstance(column, InputRef):
            raise PlanningError("VECTOR_SEARCH searches a column of a table, and no computed one")
        return column.index

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        from headrace.operators.lookup.lookup_joins import LookupJoinDefinition
        from headrace.operators.lookup.readers import ReloadTrigger, TableReader
        from headrace.operators.lookup.vector_search import NearestRows, SimilarityMetric

        table, rows, column = self.table, self.table.scan.schema, self._vectors
        lookup = table.scan.source.create_lookup([rows.names[column]])
        if not isinstance(lookup.reader, TableReader):
            raise PlanningError(
                f"VECTOR_SEARCH reads all rows of table {'.'.join(table.scan.scan.path)}: set its option "
                "'lookup.cache' = 'FULL'"
            )
        vector = Cast(InputRef.all_of(self.input.schema)[self.queried], type=rows.types[column].as_nullable())
        condition = None if self.condition is None else compiled(self.condition, self.schema, builder)
        definition = LookupJoinDefinition(
            record_type(rows),
            tuple(compiled_all([vector], self.input.schema, builder.settings)),
            (column,),
            None if table.condition is None else compiled(table.condition, rows, builder),
            tuple(compiled_all(table.expressions, rows, builder.settings)),
            ExpandedRows(record_type(self.schema), condition, self.kind is JoinType.LEFT),
        )
        metric = SimilarityMetric(METRIC.parse(dict(self.config).get(METRIC.key, METRIC.default)))
        nearest = NearestRows(self.count, metric)
        spec = VectorSearchSpec(definition, lookup.reader, lookup.reload or ReloadTrigger(), nearest)
        return builder.add(spec, self.name, *inputs)


def nearest_of_one(search: VectorSearch, context: ConversionContext) -> PhysicalNode:
    """The rows that are found for a constant vector."""
    zero = Literal(0, type=INT.not_null())
    row = projected(ValuesScan(((zero,),), Schema((Field("ZERO", zero.type),))), [search.vector], ["$f0"])
    node = with_nearest(row, search, InputRef(0, type=search.vector.type), JoinType.INNER, context)
    return projected(node, InputRef.all_of(node.schema)[1:], search.schema.names)


def with_nearest(
    left: PhysicalNode, search: VectorSearch, vector: Scalar, kind: JoinType, context: ConversionContext
) -> PhysicalNode:
    """Rows with those that are found for each.

    Args:
        left: the rows.
        search: the search.
        vector: the vector, over the columns of a row.
        kind: inner, or left.
        context: the context of the conversion.

    Raises:
        PlanningError: when the table cannot be searched.
    """
    _check_table(search.input)
    table, width = LookedUp.of(search.input, context), len(left.schema)
    queried, given = vector.index if isinstance(vector, InputRef) else width, left
    if queried == width:
        names = (*left.schema.names, f"$f{width}")
        given = projected(left, [*InputRef.all_of(left.schema), vector], names)
    made = VectorSearchTableFunction(given, table, kind, search.vectors, queried, search.count, search.config)
    if given is left:
        return made
    columns = [each for each in InputRef.all_of(made.schema) if each.index != queried]
    return projected(made, columns, (*left.schema.names, *search.schema.names))


def _check_table(relation: Relation) -> None:
    while isinstance(relation, LogicalWatermarkAssigner | Project | Filter):
        relation = relation.input
    if not isinstance(relation, Scan):
        raise PlanningError(
            "VECTOR_SEARCH searches a table, and columns computed from it, and no other query: join and aggregate "
            "what it finds"
        )
