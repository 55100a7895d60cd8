"""Reading Parquet, measured in rows."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.common.columns import layout_of
from headrace.common.errors import CorruptFileError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.bulk_files import (
    ColumnFileFormat,
    RowReader,
    check_hadoop_config,
    names_in_file,
    telling_damage,
)
from headrace.formats.file_format import Decoded, FileExtent
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.file_format import FileRange
    from headrace.storage.files import InputFile

_BATCH_ROWS = 1 << 16


class ParquetFormat(ColumnFileFormat):
    """Rows of Parquet files, columns straight as they are.

    Parts of a file that several tasks read are cut between row groups where that is possible.

    Args:
        columns: which columns to read, in that order; all of them when left out.
        type_info: the type of the records, whose fields are looked up among the columns by name. When left out it is
            that of the first file that is there when the source is built.
        batch_size: how many rows are read at once.
        case_sensitive: whether names of columns have to be spelled exactly.

    Examples:
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.parquet import ParquetFormat
        >>> pq.write_table(pa.table({"id": [1, 2], "price": [2.5, 4.0], "shop": ["a", "b"]}), "prices.parquet")
        >>> source = FileSource.for_bulk_file_format(ParquetFormat(["id", "price"]), "prices.parquet").build()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "prices").execute_and_collect(limit=10)
        [Row(id=1, price=2.5), Row(id=2, price=4.0)]
    """

    name = "Parquet"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        batch_size: int = _BATCH_ROWS,
        case_sensitive: bool = True,
    ) -> None:
        super().__init__(columns, type_info, case_sensitive=case_sensitive)
        self._batch_size = batch_size

    def file_schema(self, file: InputFile) -> pa.Schema:
        with _open(file) as opened:
            return opened.schema_arrow

    def extent(self, file: InputFile) -> FileExtent:
        with _open(file) as parquet:
            ends = _group_ends(parquet, file.path)
        rows = ends[-1]
        return FileExtent(rows, bytes_per_unit=file.size / max(rows, 1), preferred_cuts=tuple(ends[1:-1]))

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        schema = layout_of(self.produced_type).schema
        path = part.file.path
        with _open(part.file) as file:
            names = names_in_file(path, file.schema_arrow.names, schema.names, case_sensitive=self._case_sensitive)
            records = RowReader(shown(path), names, self.produced_type, reject=reject)
            reader = _GroupReader(file, part, names, records, self._batch_size)
            for index, (first, end) in enumerate(pairwise(_group_ends(file, path))):
                if end > part.start and first < part.end:
                    yield from reader.rows(index, first, end)


@hides_engine_of_methods
class ParquetColumnarRowInputFormat(ParquetFormat):
    """The same with PyFlink's arguments.

    Args:
        row_type: the type of the records.
        hadoop_config: without effect; a warning says so.
        batch_size: how many rows are read at once.
        is_utc_timestamp: changes nothing: times without a zone are read as they are written, as true asks for.
        is_case_sensitive: whether names of columns have to be spelled exactly.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.parquet import ParquetColumnarRowInputFormat
        >>> price = Types.ROW_NAMED(["id", "price"], [int, float])
        >>> source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(price), "/data/prices").build()
    """

    def __init__(
        self,
        row_type: TypeInformation | type,
        hadoop_config: object | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        check_hadoop_config(hadoop_config)
        super().__init__(type_info=row_type, batch_size=batch_size, case_sensitive=is_case_sensitive)


@contextmanager
def _open(file: InputFile) -> Iterator[pq.ParquetFile]:
    with file.open_for_arrow() as stream:
        with telling_damage(f"{shown(file.path)} is not a Parquet file"):
            parquet = pq.ParquetFile(stream, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
            _ = parquet.schema_arrow.names  # which may be what is damaged
        with parquet:
            yield parquet


def _group_ends(file: pq.ParquetFile, path: str) -> list[int]:
    """Where row groups begin and end: 0, the ends, the last of which is the number of rows."""
    groups = range(file.metadata.num_row_groups)
    ends = list(accumulate((file.metadata.row_group(index).num_rows for index in groups), initial=0))
    if ends != sorted(ends) or ends[-1] != file.metadata.num_rows:
        raise CorruptFileError(f"{shown(path)} is damaged: its row groups do not have as many rows as it says")
    return ends


class _GroupReader:
    """Reads the row groups of a part of a file.

    Args:
        file: the file.
        part: the part.
        names: the columns as the file names them.
        records: makes records of rows.
        batch_size: how many rows are read at once.
    """

    def __init__(
        self, file: pq.ParquetFile, part: FileRange, names: list[str], records: RowReader, batch_size: int
    ) -> None:
        self._file = file
        self._part = part
        self._names = names
        self._records = records
        self._batch_size = batch_size

    def rows(self, index: int, first: int, end: int) -> Iterator[Decoded]:
        """The rows of one group that are in the part. Those behind damage are lost, up to the end of the group.

        Reading begins at the group's first row, for pages have no index; so the batches, and with them what is lost,
        are the same whatever the part.

        Args:
            index: which group.
            first: its first row.
            end: the row after its last one.
        """
        part, at = self._part, first
        try:
            with telling_damage(f"{shown(part.file.path)} is damaged"):
                batches = self._file.iter_batches(
                    self._batch_size, row_groups=[index], columns=self._names, use_threads=False
                )
            while at < min(part.end, end):
                batch = self._next(batches, end - at)
                start, stop = max(part.start - at, 0), min(part.end - at, batch.num_rows)
                if start < stop:
                    yield self._records.decoded(batch.slice(start, stop - start), at + start, "of the file")
                at += batch.num_rows
        except CorruptFileError as error:
            yield Decoded(damage=CorruptFileError(f"{error} (rows {at} to {end} of the file)"))

    def _next(self, batches: Iterator[pa.RecordBatch], left: int) -> pa.RecordBatch:
        path = shown(self._part.file.path)
        with telling_damage(f"{path} is damaged"):
            batch = next(batches, None)
        if batch is None or not 0 < batch.num_rows <= left:
            raise CorruptFileError(f"{path} is damaged: a row group does not have as many rows as it says")
        return batch
