"""The rows of one state that a program gives: in this process, or in a Spark DataFrame whose tasks write them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidTypeError, SavepointError, refused, shown
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.tables import write_table
from headrace.state.exported_tables import ExportedTable
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.protocols import StateKind
from headrace.state.runs.layout import KEY, TIMERS
from headrace.state_processor.manifest_edits import OperatorPlace
from headrace.state_processor.state_columns import StateColumns
from headrace.storage.folder import Folder


def table_of(data: object) -> pa.Table:
    """The rows of a table of Arrow, pandas, Polars or DuckDB; or of a dict of columns, or a list of dicts.

    Raises:
        InvalidTypeError: when it is something else, or Arrow has no type for a column.
    """
    try:
        found = _table_of(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"no Arrow table can be made of this {type(data).__name__}: {error}") from error
    if found is None:
        raise InvalidTypeError(
            f"expected a table of Arrow, pandas, Polars, DuckDB or Spark, not {type(data).__module__}."
            f"{type(data).__qualname__}"
        )
    return found


def is_table(data: object) -> bool:
    """Whether it is a table of a library, and not elements."""
    return isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def is_spark_dataframe(data: object) -> bool:
    """Whether it is a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def check_spark_session(given: object, method: str) -> None:
    """Refuse what is no session of Spark.

    Raises:
        InvalidTypeError: naming the method that takes one.
    """
    if not (type(given).__module__.startswith("pyspark.") and hasattr(given, "createDataFrame")):
        raise refused(f"{method} takes a SparkSession, not {shown(given)}", InvalidTypeError)


def _table_of(data: object) -> pa.Table | None:
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _is_pandas(data):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, Mapping):
        return pa.table(data)
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist(list(data))
    return None


def _is_pandas(data: object) -> bool:
    return type(data).__module__.startswith("pandas.") and hasattr(data, "columns")  # a Series has none


def table_of_rows(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> ExportedTable:
    """What a task has of a state."""
    return ExportedTable(place.uid, columns.store, columns.about, rows.schema, [rows])


def divided(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each task, by partition, in their order."""
    if columns.is_broadcast:
        yield from ((partition, rows) for partition in range(place.parallelism))
    elif columns.state_kind is StateKind.UNION:  # after a start each task has all of it
        yield 0, rows
    else:
        partitions = _partitions(place, columns, rows)
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(place.parallelism + 1))
        for partition, (start, stop) in enumerate(pairwise(bounds.tolist())):
            yield partition, rows.take(pa.array(order[start:stop]))


def _partitions(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    if columns.state_kind is StateKind.LIST or KEY not in rows.schema.names:  # an equal share for each
        shares: npt.NDArray[np.int64] = np.arange(rows.num_rows) * place.parallelism // max(1, rows.num_rows)
        return shares
    hashes = KeyColumn.of(rows.column(KEY)).hashes
    return partitions_of_hashes(hashes, place.parallelism, place.max_parallelism)


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
        from headrace.runtime.spark.dataframe import grouped  # who has such a DataFrame has Spark

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


DOMAIN: Final = "domain"
"""The column that says in which time timers are; event time where there is none."""

_DOMAINS: Final = ("event", "processing")


def by_domain(table: Any) -> Iterator[tuple[str, Any]]:
    """The timers of each time domain.

    Raises:
        SavepointError: when there is another one.
    """
    is_spark = is_spark_dataframe(table)
    if DOMAIN not in (table.columns if is_spark else table.column_names):
        yield _DOMAINS[0], table
        return
    if is_spark:
        found = [row[0] for row in table.select(DOMAIN).distinct().collect()]
    else:
        found = pc.unique(table.column(DOMAIN)).to_pylist()
    unknown = [domain for domain in found if domain not in _DOMAINS]
    if unknown:
        raise SavepointError(f"timers: {DOMAIN!r} is {unknown[0]!r} in a row, and has to be event or processing")
    for domain in sorted(found):
        if is_spark:
            yield domain, table.filter(table[DOMAIN] == domain).drop(DOMAIN)
        else:
            yield domain, table.filter(pc.equal(table.column(DOMAIN), domain)).drop_columns([DOMAIN])


def of_one_domain(store: str, data: Any) -> Any:
    """The rows for a store; of timers without the column that says of which time they are, as all are of its own.

    Raises:
        SavepointError: when others are of the other time.
        InvalidTypeError: when ``data`` is no table.
    """
    kind, _, own = store.partition("/")
    table = data if is_spark_dataframe(data) else table_of(data)
    if kind != TIMERS or DOMAIN not in (table.columns if is_spark_dataframe(table) else table.column_names):
        return data
    found = dict(by_domain(table))
    other = next((domain for domain in found if domain != own), None)
    if other is not None:
        raise SavepointError(
            f"{store!r} holds timers of {own} time, and some rows are of {other} time: replace those as "
            f"{f'{TIMERS}/{other}'!r}"
        )
    return found.get(own, table.drop(DOMAIN) if is_spark_dataframe(table) else table.drop_columns([DOMAIN]))
