"""``TableResult``: the result of a statement, with a job or without one: lists, descriptions, plans, and ``OK``."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import codes_of
from headrace.common.batch import Kinds
from headrace.common.columns import layout_of
from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, string
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import RowKind
from headrace.connectors.driver_sink import DriverSink, EncodedRecords
from headrace.datastream.streams.sinks import CloseableIterator, Handover
from headrace.table.environment.tableau import WIDEST, ResultChanges, tableau, text_rows
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.translation import record_type

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.common.types import Row


class ResultKind(enum.Enum):
    """The kinds of results of statements.

    Examples:
        >>> from headrace.table import ResultKind
        >>> ResultKind.SUCCESS.value
        0
    """

    SUCCESS = 0
    """The statement succeeded, without rows."""
    SUCCESS_WITH_CONTENT = 1
    """Rows."""


class ResultSink(DriverSink):
    """Hands the rows of a query over to the program.

    Args:
        handover: takes them.
        names: the names of their columns.
    """

    keeps_times = False

    def __init__(self, handover: Handover, names: Sequence[str]) -> None:
        super().__init__(partial(_give_changes, handover, list(names)))


def _give_changes(
    handover: Handover, names: list[str], records: Sequence[EncodedRecords], type_: TypeInformation
) -> None:
    parts = (
        ResultChanges(
            part.as_columns(type_).rename_columns(names), np.frombuffer(part.kinds, np.int8) if part.kinds else None
        )
        for part in records
    )
    handover.put([part for part in parts if part.columns.num_rows])


class TableResult:
    """The result of a statement: rows, or that it has succeeded.

    The rows of a query come while its job runs; they can be read once.

    Examples:
        >>> from headrace.table import EnvironmentSettings, TableEnvironment
        >>> tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> _ = tables.get_config().set("headrace.runtime", "local")
        >>> with tables.execute_sql("SELECT 1 + 1 AS two").collect() as rows:
        ...     list(rows)
        [Row(two=2)]
    """

    def __init__(
        self,
        schema: Schema,
        record_type: TypeInformation,
        changes: Iterator[ResultChanges],
        *,
        kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
        client: JobClient | None = None,
        is_changelog: bool = False,
        time_zone: str = "UTC",
    ) -> None:
        self._schema = schema
        self._type = record_type
        self._changes = changes
        self._kind = kind
        self._client = client
        self._handover = changes if isinstance(changes, CloseableIterator) else None
        self._is_changelog = is_changelog
        self._time_zone = time_zone

    def get_job_client(self) -> JobClient | None:
        """The client of the job that the statement started; None without a job."""
        return self._client

    def get_result_kind(self) -> ResultKind:
        """The kind of the result: whether there are rows."""
        return self._kind

    def get_resolved_schema(self) -> Schema:
        """The columns of the rows."""
        return self._schema

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job has finished; without a job, return at once.

        Args:
            timeout_ms: the timeout in milliseconds; none by default.

        Raises:
            TimeoutError: when the timeout expires.
            JobExecutionError: when it has failed.
        """
        if self._client is not None:
            timeout = None if timeout_ms is None else timeout_ms / 1000
            self._client.get_job_execution_result().result(timeout)

    def changes(self) -> Iterator[ResultChanges]:
        """The rows as record batches, with their kinds."""
        return self._changes

    def collect(self) -> CollectedRows:
        """The rows one by one, as they come. The iterator has to be closed, best by a ``with`` statement."""
        return CollectedRows(self)

    def to_arrow(self) -> pa.Table:
        """The rows after all changes as an Arrow table, in the order in which they arrived."""
        parts = list(self._changes)
        table = pa.Table.from_batches([part.columns for part in parts], layout_of(self._type).schema)
        if all(part.kinds is None for part in parts):
            return table
        kinds = [np.zeros(len(part.columns), np.int8) if part.kinds is None else part.kinds for part in parts]
        return table.take(_remaining(table, np.concatenate(kinds)))

    def to_pandas(self) -> Any:
        """The rows after all changes as a ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()

    def to_spark(self) -> Any:
        """The rows after all changes as a Spark DataFrame, in the active session or else a new one.

        Raises:
            UnsupportedOperationError: without pyspark.
        """
        try:
            from headrace.runtime.spark.dataframe import dataframe_of
        except ModuleNotFoundError as error:
            raise UnsupportedOperationError("to_spark() needs pyspark: pip install 'headrace[spark]'") from error
        return dataframe_of(self.to_arrow())

    def print(self) -> None:
        """Print the rows as a table; in streaming mode with their kinds, as they come."""
        for line in self.lines():
            sys.stdout.write(f"{line}\n")  # at once, so that nothing of another thread comes between

    @property
    def is_query(self) -> bool:
        """Return whether the rows are those of a query, which come while its job runs."""
        return self._handover is not None

    def lines(self) -> Iterator[str]:
        """The lines that :meth:`print` prints, as they come; a plan or a definition is text without a table."""
        if not self.is_query and self._schema.names == ("result",):
            return (row[0] for row in self.collect())
        widest = WIDEST if self.is_query else sys.maxsize
        return tableau(
            self._schema, self._changes, has_kinds=self._is_changelog, widest=widest, time_zone=self._time_zone
        )

    def text_rows(self) -> Iterator[list[str]]:
        """The values of the rows as texts, after ``+I``, ``-U``, ``+U`` or ``-D``."""
        return text_rows(self._schema, self._changes, has_kinds=True, time_zone=self._time_zone)

    def close(self) -> None:
        """Cancel the job if it is that of a query."""
        if self._handover is not None:
            self._handover.close()


def _remaining(table: pa.Table, kinds: Kinds) -> npt.NDArray[np.int64]:
    """The positions of the rows that are left after all changes: of equal rows, the last ones."""
    codes = codes_of(table.to_struct_array().combine_chunks())
    is_addition = (kinds == RowKind.INSERT.value) | (kinds == RowKind.UPDATE_AFTER.value)
    counts = np.bincount(codes, np.where(is_addition, 1, -1)).astype(np.int64)
    newest_first = np.flatnonzero(is_addition)[::-1]
    by_code = newest_first[np.argsort(codes[newest_first], kind="stable")]
    ordered = codes[by_code]
    ranks = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return np.sort(by_code[ranks < counts[ordered]])


class CollectedRows:
    """The rows of a result, one by one. It has to be closed, best by a ``with`` statement.

    Examples:
        >>> from headrace.table import EnvironmentSettings, TableEnvironment
        >>> tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        >>> _ = tables.get_config().set("headrace.runtime", "local")
        >>> with tables.execute_sql("VALUES (1), (2)").collect() as rows:
        ...     [row[0] for row in rows]
        [1, 2]
    """

    def __init__(self, result: TableResult) -> None:
        self._result = result
        self._rows = self._all()

    def _all(self) -> Iterator[Row]:
        layout = layout_of(self._result._type)
        for part in self._result.changes():
            if part.kinds is None:
                yield from layout.columns_to_rows(part.columns)
            else:
                yield from layout.columns_and_kinds_to_rows(part.columns, part.kinds)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def next(self) -> Row:
        """The next row, as PyFlink names it."""
        return next(self)

    def close(self) -> None:
        """Cancel the job if it is that of a query."""
        self._result.close()

    def __enter__(self) -> CollectedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


STRING: Final = string()
BOOLEAN: Final = AtomicType(TypeRoot.BOOLEAN)
BIGINT: Final = AtomicType(TypeRoot.BIGINT)


def static_result(
    columns: Sequence[tuple[str, LogicalType]],
    rows: Iterable[Sequence[object]],
    kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
    client: JobClient | None = None,
) -> TableResult:
    """A result of some rows.

    Args:
        columns: names and types.
        rows: the rows.
        kind: the kind of the result.
        client: the client of the job, if one was started.
    """
    schema = Schema(tuple(Field(name, kind) for name, kind in columns))
    type_ = record_type(schema)
    given = [list(row) for row in rows]
    layout = layout_of(type_)
    arrays = [pa.array([row[index] for row in given], field.type) for index, field in enumerate(layout.schema)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    return TableResult(schema, type_, iter([ResultChanges(batch)]), kind=kind, client=client)


def done() -> TableResult:
    """The result ``OK``."""
    return static_result([("result", STRING)], [("OK",)], ResultKind.SUCCESS)


def text_result(text: str) -> TableResult:
    """A result with one text."""
    return static_result([("result", STRING)], [(text,)])
