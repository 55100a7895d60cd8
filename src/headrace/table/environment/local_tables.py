"""Tables of rows that a program holds: elements of Python, or a DataFrame of pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.common.columns import PICKLED, infer_from_values, layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import LogicalType, MapType, RowType, decimal
from headrace.common.messages import fields_of
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import Row
from headrace.connectors.ranges import CollectionSource, ColumnsSource
from headrace.connectors.source import Source
from headrace.formats.bulk_files import type_of_schema
from headrace.formats.statistics import Statistics
from headrace.table.catalog.objects import CatalogTable, Column
from headrace.table.connectors.table_source import TableSource
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.translation import record_type

Declared = LogicalType | Sequence[str] | Sequence[LogicalType] | None
"""The declaration of columns in a program: all of a row, the type of a single column, only names, only types, or
nothing."""


@dataclass(frozen=True)
class LocalRows(TableSource):
    """A bounded source of rows of the program.

    Attributes:
        source: gives the rows.
        count: their number.
    """

    source: Source[Any]
    count: int
    is_bounded = True

    @property
    def can_be_read_whole(self) -> bool:
        return True

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.count)

    @property
    def summary(self) -> str:
        return "local rows"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        del metadata
        return self.source


def table_of_elements(elements: Iterable[Any], schema: Declared) -> CatalogTable:
    """The table of some elements.

    Args:
        elements: tuples, rows, dicts, or values of a single column.
        schema: a ``ROW``, the type of the single column, or the names of the columns; found out from the elements
            where they do not tell it.

    Raises:
        InvalidTypeError: when the elements do not fit the schema, or do not tell it.
    """
    given = list(elements)
    if isinstance(schema, LogicalType) and not isinstance(schema, RowType):
        row, rows = RowType(("value",), (schema,)), [(each,) for each in given]
    else:
        rows = [tuple(each.values()) if isinstance(each, Mapping) else each for each in given]
        row = schema if isinstance(schema, RowType) else _observed(given[:1], rows, schema)
    return _table(row, lambda kind: CollectionSource(rows, kind), len(rows))


def table_of_pandas(frame: Any, schema: Declared) -> CatalogTable:
    """The table of a DataFrame of pandas.

    Args:
        frame: the DataFrame.
        schema: a ``ROW``, or the names or the types of the columns; those of the DataFrame by default.

    Raises:
        InvalidTypeError: when it is no such DataFrame, or the schema does not fit.
    """
    if not hasattr(frame, "itertuples"):
        raise InvalidTypeError(f"from_pandas() takes a DataFrame of pandas, not {type(frame).__name__}")
    columns = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks()
    if isinstance(schema, LogicalType) and not isinstance(schema, RowType):
        raise InvalidTypeError(f"the schema of a DataFrame is a ROW, or names or types in a list, not {schema}")
    row = schema if isinstance(schema, RowType) else _of_columns(columns.schema, schema)
    if len(row.names) != columns.num_columns:
        raise InvalidTypeError(f"the schema has {len(row.names)} columns, the DataFrame has {columns.num_columns}")

    def source(kind: TypeInformation) -> Source[Any]:
        wanted = layout_of(kind).schema
        try:
            cast = columns.rename_columns(wanted.names).cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidTypeError(f"the DataFrame does not fit the schema {row}: {error}") from None
        return ColumnsSource(kind, next(iter(cast.to_batches()), pa.RecordBatch.from_pylist([], wanted)))

    return _table(row, source, len(columns))


def _observed(first: Sequence[Any], rows: Sequence[Any], names: Sequence[Any] | None) -> RowType:
    """The columns of elements, whose types are inferred from all of them."""
    if not all(isinstance(each, tuple | list | Row) for each in rows) or len(set(map(len, rows))) != 1:
        raise InvalidTypeError("the elements do not tell the columns: give tuples of the same length, or a schema")
    columns = list(zip(*rows, strict=True))
    if names is None:
        named = list(first[0]) if isinstance(first[0], Mapping) else getattr(first[0], "_fields", None)
        names = named or [f"_{at}" for at in range(1, len(columns) + 1)]
    if len(names) != len(columns):
        raise InvalidTypeError(f"{len(names)} names for {len(columns)} columns: {', '.join(map(str, names))}")
    return RowType(tuple(names), tuple(map(_type_of_values, names, columns)))


def _type_of_values(name: str, values: Sequence[Any]) -> LogicalType:
    present = [each for each in values if each is not None]
    if present and all(isinstance(each, dict) for each in present):
        keys, contents = ([item for each in present for item in of(each)] for of in (dict.keys, dict.values))
        return MapType(_type_of_values(name, keys), _type_of_values(name, contents))
    if present and all(isinstance(each, Decimal) for each in present):
        return decimal(38, 18)
    kind = infer_from_values(values)
    if kind == PICKLED:
        raise InvalidTypeError(f"the elements do not tell the type of column {name}: give a schema")
    return kind.logical_type


def _of_columns(known: pa.Schema, said: Sequence[Any] | None) -> RowType:
    types = said if said and all(isinstance(each, LogicalType) for each in said) else None
    names = tuple(said if said and types is None else map(str, known.names))
    if types is None:
        types = [each.logical_type for _, each in fields_of(type_of_schema(known.with_metadata(None)))]
    return RowType(names, tuple(types))


def _table(row: RowType, source: Callable[[TypeInformation], Source[Any]], count: int) -> CatalogTable:
    fields = [Field(name, kind) for name, kind in zip(row.names, row.types, strict=True)]
    kind = record_type(Schema(tuple(fields)))
    columns = tuple(Column(each.name, each.type) for each in fields)
    return CatalogTable(columns, inline=LocalRows(source(kind), count))
