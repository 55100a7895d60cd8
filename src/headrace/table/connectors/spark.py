"""``spark``: bounded tables that Spark reads: a table of its catalog, or files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidTypeError, UnsupportedOperationError
from headrace.common.typeinfo import CompositeTypeInfo
from headrace.connectors.source import Source
from headrace.formats.statistics import Statistics
from headrace.operators.lookup.readers import StaticTable
from headrace.table.connectors.factory import TableConnector, TableContext, naming_table
from headrace.table.connectors.picked_columns import PickedColumns
from headrace.table.connectors.table_lookup import CACHE, TableLookup, refuse_partial
from headrace.table.connectors.table_source import TableSource

TABLE: Final = ConfigOption("table", str, "", "The name of a table or a view of Spark.")
PATH: Final = ConfigOption("path", str, "", "A path that Spark reads.")
FORMAT: Final = ConfigOption("format", str, "parquet", "How it reads the path.")
_OPTION: Final = "option."
_MOST_BYTES: Final = 256 << 20


class SparkTables(TableConnector):
    """Tables that Spark reads once, when a job starts for the first time."""

    optional_options = (TABLE, PATH, FORMAT, CACHE)

    def create_source(self, context: TableContext) -> TableSource:
        with naming_table(context):
            own = {key: value for key, value in context.options.items() if not key.startswith(_OPTION)}
            options = self.options_of(context, own)
            if bool(options.get(TABLE)) == bool(options.get(PATH)):
                raise ConfigurationError(f"{self} needs one of 'table' and 'path'")
        return SparkTable(context, options)


@dataclass(frozen=True)
class SparkTable(TableSource):
    """Rows that Spark reads; its columns are found by their names."""

    context: TableContext
    options: Configuration = field(compare=False)
    is_bounded = True

    can_look_up = True

    @property
    def summary(self) -> str:
        return f"spark({self.options.get(TABLE) or self.options.get(PATH)})"

    @cached_property
    def _statistics(self) -> Statistics | None:
        with naming_table(self.context):
            dataframe = self._dataframe()
            from headrace.runtime.spark.dataframe import statistics_of

            return statistics_of(dataframe)

    @property
    def statistics(self) -> Statistics | None:
        return self._statistics if self.context.takes_statistics else None

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        with naming_table(self.context):
            dataframe = self._dataframe()
            from headrace.runtime.spark.dataframe import DataFrameSource

            return columns_by_name(DataFrameSource(dataframe), self.context)

    def _dataframe(self) -> Any:
        try:
            from headrace.runtime.spark.dataframe import read_table
        except ModuleNotFoundError as error:
            raise UnsupportedOperationError("connector 'spark' needs pyspark: pip install pyspark") from error
        given = self.context.options.items()
        extra = {key.removeprefix(_OPTION): value for key, value in given if key.startswith(_OPTION)}
        return read_table(self.options.get(TABLE), self.options.get(PATH), self.options.get(FORMAT), extra)

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        with naming_table(self.context):
            refuse_partial(self.options, "a table of Spark")
            rows, known = self._dataframe().toArrow(), self.context.record_type
            names = self.context.columns.names
            if missing := [name for name in names if name not in rows.column_names]:
                raise InvalidTypeError(f"there is no column {missing[0]!r}: there are {', '.join(rows.column_names)}")
            if rows.nbytes > _MOST_BYTES:
                raise UnsupportedOperationError(
                    f"its rows take {rows.nbytes >> 20} MiB, and would travel with the job to each task"
                )
            schema = layout_of(known).schema
            pairs = zip(names, schema, strict=True)
            arrays = [rows.column(name).combine_chunks().cast(column.type) for name, column in pairs]
            return TableLookup(StaticTable(pa.RecordBatch.from_arrays(arrays, schema=schema)), tuple(keys))


def columns_by_name(source: Source[Any], context: TableContext) -> Source[Any]:
    """The columns of a table among those of a source.

    Raises:
        InvalidTypeError: when a column is missing.
    """
    known = source.produced_type
    names = list(known.field_names) if isinstance(known, CompositeTypeInfo) else []
    missing = [name for name in context.columns.names if name not in names]
    if missing:
        raise InvalidTypeError(f"there is no column {missing[0]!r}: there are {', '.join(names)}")
    return PickedColumns(source, context.record_type, [names.index(name) for name in context.columns.names])
