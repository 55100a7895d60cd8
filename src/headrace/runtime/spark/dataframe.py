"""Static Spark DataFrames: as a source that reads what Spark has written once, and with their rows brought together."""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.common.errors import InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.file_system.source import FileSource
from headrace.connectors.source import Boundedness, EnumeratorContext, Source, SourceReader, SplitEnumerator
from headrace.formats.bulk_files import type_of_schema
from headrace.formats.parquet import ParquetFormat
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.runtime.spark.faults import SPARK_ERRORS, failure
from headrace.runtime.task.background import attempt
from headrace.storage.file_system import PosixFileSystem

_APART = 1_000_000
"""Nanoseconds between the times of two files: what the coarsest file systems can hold."""


class DataFrameSource(Source):
    """The rows of a DataFrame, as a bounded source.

    The DataFrame is evaluated when the job starts without a checkpoint of it, and kept as Parquet beside the job's
    checkpoints: what Spark would compute may differ from one evaluation to the next, what a checkpoint refers to may
    not. Rows come in the order of the DataFrame's partitions.

    Args:
        dataframe: a static DataFrame, of any session.

    Raises:
        UnsupportedOperationError: for a streaming DataFrame.
        InvalidTypeError: for a DataFrame of another library, and naming the column that has no type in headrace.
    """

    def __init__(self, dataframe: DataFrame) -> None:
        if not isinstance(dataframe, DataFrame):
            kind = f"{type(dataframe).__module__}.{type(dataframe).__qualname__}"
            raise InvalidTypeError(
                f"from_dataframe() takes a DataFrame of Spark, not a {kind}\n  Make one of it by "
                "spark.createDataFrame(df), or give records of Python to env.from_collection([...], type_info)"
            )
        if dataframe.isStreaming:
            raise UnsupportedOperationError(
                "from_dataframe() takes static DataFrames only\n  Have the streaming query write Parquet in "
                "foreachBatch(), and watch its folder with a FileSource: docs/connectors.md, Spark DataFrames"
            )
        self._dataframe: DataFrame | None = dataframe
        self._staged: Path | None = None
        self._type = type_of_schema(to_arrow_schema(dataframe.schema, timezone="UTC"))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    @property
    def gives_timestamps(self) -> bool:
        return False

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        if not isinstance(context.folder.file_system, PosixFileSystem):
            raise UnsupportedOperationError(
                f"from_dataframe() keeps the rows in the checkpoint directory, here in {context.folder}: that has to "
                "be what driver and executors see as a POSIX path; or write the DataFrame as Parquet, and read that"
            )
        folder = Path(context.folder.path)
        if context.state is not None:  # its checkpoint names the files, and no others are looked for
            return self._files(folder).create_enumerator(context)
        staged = self._staged  # by an attempt before this one, which came to no checkpoint
        if staged is None or staged.parent != folder or not staged.exists():
            staged = self._staged = self._stage(folder)
        return self._files(staged).create_enumerator(context)

    def create_reader(self) -> SourceReader:
        # Pieces name their files, so any folder will do.
        return self._files(Path()).create_reader()

    def __getstate__(self) -> dict[str, Any]:
        """Tasks read files; the DataFrame stays in the driver."""
        return {**self.__dict__, "_dataframe": None}

    def __repr__(self) -> str:
        return f"DataFrameSource({self._type})"

    def _stage(self, folder: Path) -> Path:
        """Evaluate the DataFrame into a new folder below one.

        What is there already may be of another DataFrame, that had the uid before, or of another job manager that was
        superseded and still writes.
        """
        if self._dataframe is None:
            raise InvalidProgramError(f"the rows of the DataFrame are not in {folder}, and this is only a copy of it")
        staged = folder / f"dataframe-{uuid.uuid4().hex}"
        self._dataframe.write.parquet(str(staged))
        _tell_apart(staged)
        return staged

    def _files(self, folder: Path) -> FileSource:
        return FileSource.for_bulk_file_format(ParquetFormat(type_info=self._type), folder).build()


def _tell_apart(folder: Path) -> None:
    """Give each file a time of its own: tasks that end together write files of one time, and often of one size.

    A checkpoint identifies a file by its size and time: with both equal, two files could change places unnoticed.
    """
    files = sorted(folder.glob("*.parquet"))
    begun = min((file.stat().st_mtime_ns for file in files), default=0)
    for number, file in enumerate(files):
        moment = begun + number * _APART
        os.utime(file, ns=(moment, moment))


Divide = Callable[[pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]]
"""Of some rows: which partitions they belong to, and what they become there."""

Gather = Callable[[int, Iterator[pa.RecordBatch]], Any]
"""Does something with all rows of a partition; the result travels as a pickle."""

_DIVIDED: Final = "partition int, source int, sequence long, payload binary"
_GATHERED: Final = "outcome binary"
_FAILED: Final = -1
"""In place of a sequence: the payload is what went wrong."""


def grouped(dataframe: DataFrame, partitions: int, divide: Divide, gather: Gather) -> list[Any]:
    """The results of the partitions that have rows.

    Args:
        dataframe: a static DataFrame. The rows of a partition come in its order.
        partitions: how many there are.
        divide: is called for a batch at a time.
        gather: is called once for a partition, or again when its task is.

    Raises:
        Exception: what one of the functions has raised.
        InfrastructureError: when tasks themselves have failed.
    """
    query = (
        dataframe.mapInArrow(partial(_divided, divide), _DIVIDED)
        .repartitionById(partitions, sql.col("partition"))
        .sortWithinPartitions("partition", "source", "sequence")
        .mapInArrow(partial(_gathered, gather), _GATHERED)
    )
    try:
        outcomes = query.toArrow().column("outcome").to_pylist()
    except SPARK_ERRORS as error:
        raise failure("writing the rows of a DataFrame", error) from error
    return [pickle.loads(outcome).result() for outcome in outcomes]


def _divided(divide: Divide, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first stage: a row for each part of a batch."""
    context = TaskContext.get()
    assert context is not None, "Spark calls it in a task"
    source, sequence = context.partitionId(), 0
    for batch in batches:
        outcome = attempt(partial(_parts, divide), batch)
        if outcome.error is not None:
            yield _row(0, source, _FAILED, outcome.to_bytes())
            return
        for partition, payload in outcome.result():
            yield _row(partition, source, sequence, payload)
            sequence += 1


def _parts(divide: Divide, batch: pa.RecordBatch) -> list[tuple[int, bytes]]:
    return [(partition, _packed(rows)) for partition, rows in divide(batch) if rows.num_rows]


def _gathered(gather: Gather, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second stage: a row for each partition."""
    columns = ("partition", "sequence", "payload")
    rows = (row for batch in batches for row in zip(*(batch.column(name) for name in columns), strict=True))
    for partition, parts in groupby(rows, key=lambda row: row[0].as_py()):
        outcome = attempt(partial(gather, partition), map(_unpacked, parts))
        yield pa.RecordBatch.from_pydict({"outcome": pa.array([outcome.to_bytes()], pa.binary())})


def _row(partition: int, source: int, sequence: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([partition], pa.int32()),
            "source": pa.array([source], pa.int32()),
            "sequence": pa.array([sequence], pa.int64()),
            "payload": pa.array([payload], pa.binary()),
        }
    )


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _unpacked(part: Any) -> pa.RecordBatch:
    """The rows of a part.

    Raises:
        Exception: what has gone wrong where they come from.
    """
    _, sequence, payload = part
    if sequence.as_py() == _FAILED:
        pickle.loads(payload.as_buffer()).result()
    return pa.ipc.open_stream(payload.as_buffer()).read_next_batch()


def read_table(table: str, path: str, file_format: str, options: Mapping[str, str]) -> DataFrame:
    """The DataFrame of what Spark can read, in the session that there is, or else a new one.

    Args:
        table: the name of a table or a view; else there is a path.
        path: what to read.
        file_format: how.
        options: of Spark's reader.
    """
    session = SparkSession.builder.getOrCreate()
    try:
        return session.table(table) if table else session.read.format(file_format).options(**options).load(path)
    except SPARK_ERRORS as error:
        raise failure(f"reading {table or path}", error) from error


def dataframe_of(table: pa.Table) -> DataFrame:
    """The DataFrame of a table of Arrow, in the session that there is, or else a new one."""
    return SparkSession.builder.getOrCreate().createDataFrame(table)


_UNKNOWN_BYTES: Final = 1 << 60
"""From here on the size is Spark's default for an unknown one."""

_EPOCH: Final = date(1970, 1, 1)


def _number(value: Any) -> Any:
    return value


def _day(value: int) -> date:
    return _EPOCH + timedelta(days=value)


_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), _number),
    "date": _day,
}
"""Values as Arrow gives them, from Spark's own, by the type; of other types no lowest and highest ones are known."""


def statistics_of(dataframe: DataFrame) -> Statistics | None:
    """The statistics that Spark has of a DataFrame: those of ``ANALYZE TABLE``, or else what follows from its size.

    Returns:
        None where Spark has none.
    """
    plan: Any = dataframe._jdf.queryExecution().optimizedPlan()
    found = _of_catalog(plan) or plan.stats()
    rows, size = _optional(found.rowCount()), int(str(found.sizeInBytes()))
    if rows is None:
        if size >= _UNKNOWN_BYTES:
            return None
        width: int = plan.schema().defaultSize()
        rows = size // max(width, 1)
    columns = dict(_columns(plan, found))
    return Statistics(rows, lambda name: columns.get(name, ColumnStatistics()))


def _of_catalog(plan: Any) -> Any:
    """The statistics of ``ANALYZE TABLE``, of a plan that is a table; None for other plans.

    A plan itself has that only where ``spark.sql.cbo.planStats.enabled`` is set.
    """
    if plan.getClass().getSimpleName() != "LogicalRelation" or not plan.catalogTable().isDefined():
        return None
    known = plan.catalogTable().get().stats()
    return known.get().toPlanStats(plan.output(), True) if known.isDefined() else None


def _columns(plan: Any, found: Any) -> Iterator[tuple[str, ColumnStatistics]]:
    output, known = plan.output(), found.attributeStats()
    for place in range(output.length()):
        attribute = output.apply(place)
        column = known.get(attribute)
        if column.isDefined():
            yield attribute.name(), _column(attribute.dataType().simpleString(), column.get())


def _column(kind: str, column: Any) -> ColumnStatistics:
    convert = _VALUES.get(kind)
    lowest, highest = (
        None if convert is None or not end.isDefined() else convert(end.get()) for end in (column.min(), column.max())
    )
    return ColumnStatistics(_optional(column.nullCount()), lowest, highest, _optional(column.distinctCount()))


def _optional(number: Any) -> int | None:
    """The number in one of Scala's options."""
    return int(str(number.get())) if number.isDefined() else None
