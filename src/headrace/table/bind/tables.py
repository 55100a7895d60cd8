"""Tables of a catalog, to scans with their computed columns and watermarks."""

from typing import TYPE_CHECKING

from headrace.table.bind.expectations import expectations_of, without_expectations
from headrace.table.bind.hints import with_options
from headrace.table.catalog.objects import CatalogTable, Column, ColumnKind, ObjectPath
from headrace.table.logical.relations import (
    Hint,
    MetadataRead,
    Project,
    Relation,
    Scan,
    WatermarkAssigner,
)
from headrace.table.logical.scalars import InputRef, Scalar
from headrace.table.logical.schema import Schema

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder


def table_relation(
    queries: "QueryBinder", path: ObjectPath, table: CatalogTable, hints: tuple[Hint, ...] = ()
) -> Relation:
    """The rows of a table, in the columns that queries see."""
    if isinstance(table.inline, Relation):
        return table.inline
    physical = [column for column in table.columns if column.kind is ColumnKind.PHYSICAL]
    metadata = [column for column in table.columns if column.kind is ColumnKind.METADATA]
    read = [*physical, *metadata]
    stored = Schema(tuple(column.as_field.materialized() for column in read))
    options = with_options(table.connector_options, hints)
    scan = Scan(
        path,
        stored,
        without_expectations(options),
        _key(table, read),
        tuple(MetadataRead(len(physical) + at, each.metadata_key) for at, each in enumerate(metadata)),
        table.partition_keys,
        hints,
        table.inline,
        expectations=expectations_of(queries, path, dict(options), stored),
    )
    relation: Relation = scan
    if read != list(table.columns):
        expressions = tuple(_column(queries, column, scan) for column in table.columns)
        relation = Project(scan, expressions, tuple(column.name for column in table.columns), is_of_table=True)
    if table.watermark is not None and queries.context.is_streaming:
        watermark = queries.bound_text(table.watermark.expression, relation.schema)
        rowtime = relation.schema.index(table.watermark.column)
        relation = WatermarkAssigner(relation, rowtime, watermark)
    return relation


def _key(table: CatalogTable, read: list[Column]) -> tuple[int, ...]:
    names = [column.name for column in read]
    return () if table.primary_key is None else tuple(names.index(name) for name in table.primary_key.columns)


def _column(queries: "QueryBinder", column: Column, scan: Scan) -> Scalar:
    if column.kind is ColumnKind.COMPUTED:
        assert column.expression is not None
        return queries.bound_text(column.expression, scan.schema)
    index = scan.schema.index(column.name)
    return InputRef(index, type=scan.schema[index].type)
