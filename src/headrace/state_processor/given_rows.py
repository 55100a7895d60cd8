"""The rows of one state that somebody gives: in this process, or in a DataFrame of Spark, whose tasks write them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.savepoint.tables import write_table
from headrace.state_processor.given_data import is_spark_dataframe, table_of
from headrace.state_processor.placing import divided, table_of_rows

if TYPE_CHECKING:
    from headrace.savepoint.metadata import TableFile
    from headrace.state_processor.manifest_edits import OperatorPlace
    from headrace.state_processor.state_columns import StateColumns
    from headrace.storage.folder import Folder


class GivenRows(ABC):
    """The rows of one state.

    Attributes:
        columns: how it is stored.
    """

    columns: StateColumns

    @property
    @abstractmethod
    def parallelism(self) -> int:
        """How many tasks they are meant for, unless somebody says it."""

    @abstractmethod
    def write(self, savepoint: Folder, place: OperatorPlace) -> list[TableFile]:
        """Write them into the files of an operator's tasks; a task without rows has no file.

        Raises:
            SavepointError: when rows are no such state, or Parquet has no form for a column.
            OSError: when a file cannot be written.
        """


def given_rows(columns: StateColumns, data: Any) -> GivenRows:
    """The rows of a table of any library.

    Raises:
        SavepointError: when columns are missing or unknown, and where rows of this process are no such state.
        InvalidTypeError: when ``data`` is no table.
    """
    if is_spark_dataframe(data):
        if data.isStreaming:
            raise InvalidTypeError(f"{columns.subject}: expected a static DataFrame, not a streaming one")
        columns.check_names(data.columns)
        return SparkRows(columns, data)
    table = table_of(data)
    columns.check_names(table.column_names)
    rows = columns.stored(table)
    columns.check_identity(rows)
    return ArrowRows(columns, rows)


@dataclass(frozen=True, slots=True)
class ArrowRows(GivenRows):
    """Rows of this process, checked and stored as backends take them in."""

    columns: StateColumns
    rows: pa.RecordBatch

    @property
    def parallelism(self) -> int:
        return 1

    def write(self, savepoint: Folder, place: OperatorPlace) -> list[TableFile]:
        write = _WriteTable(savepoint, place, self.columns)
        return [write.rows(number, rows) for number, rows in divided(place, self.columns, self.rows) if rows.num_rows]


@dataclass(frozen=True, slots=True)
class SparkRows(GivenRows):
    """Rows of a static DataFrame; nothing of it comes into this process."""

    columns: StateColumns
    dataframe: Any

    @property
    def parallelism(self) -> int:
        return int(self.dataframe.sparkSession.sparkContext.defaultParallelism)

    def write(self, savepoint: Folder, place: OperatorPlace) -> list[TableFile]:
        from headrace.runtime.spark.grouped import grouped  # who has such a DataFrame has Spark

        divide, write = _Divide(place, self.columns), _WriteTable(savepoint, place, self.columns)
        return grouped(self.dataframe, place.parallelism, divide, write)


@dataclass(frozen=True, slots=True)
class _Divide:
    """Brings rows to the tasks that they belong to."""

    place: OperatorPlace
    columns: StateColumns

    def __call__(self, batch: pa.RecordBatch) -> Iterable[tuple[int, pa.RecordBatch]]:
        return divided(self.place, self.columns, self.columns.stored(pa.Table.from_batches([batch])))


@dataclass(frozen=True, slots=True)
class _WriteTable:
    """Writes all rows of a task."""

    savepoint: Folder
    place: OperatorPlace
    columns: StateColumns

    def __call__(self, partition: int, batches: Iterator[pa.RecordBatch]) -> TableFile:
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        self.columns.check_identity(rows)
        return self.rows(partition, rows)

    def rows(self, partition: int, rows: pa.RecordBatch) -> TableFile:
        """Write rows that were checked."""
        table = table_of_rows(self.place, self.columns, rows)
        return write_table(self.savepoint, table, self.place.stage, partition)
