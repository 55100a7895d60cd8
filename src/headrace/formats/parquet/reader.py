"""Reading Parquet, measured in rows."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.formats.file_format import BulkFormat, Decoded, FileExtent
from headrace.formats.parquet.types import type_of_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.file_format import FileRange

_BATCH_ROWS = 1 << 16


class ParquetFormat(BulkFormat):
    """Rows of Parquet files, columns straight as they are.

    Parts of a file that several tasks read are cut between row groups where that is possible.

    Args:
        columns: which columns to read, in that order; all of them when left out.
        type_info: the type of the records, whose fields are looked up among the columns by name. When left out it is
            that of the first file that is there when the source is built.
        batch_size: how many rows are read at once.
        case_sensitive: whether names of columns have to be spelled exactly.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        batch_size: int = _BATCH_ROWS,
        case_sensitive: bool = True,
    ) -> None:
        self._columns = None if columns is None else tuple(columns)
        self._type = None if type_info is None else Types.of(type_info)
        self._batch_size = batch_size
        self._case_sensitive = case_sensitive

    @property
    def produced_type(self) -> TypeInformation:
        """The type of the records.

        Raises:
            InvalidTypeError: when it was not given and the format was not resolved.
        """
        if self._type is None:
            raise InvalidTypeError("ParquetFormat needs type_info, or a file to take it from when the source is built")
        return self._type

    def resolve(self, list_files: Callable[[], Sequence[str]]) -> ParquetFormat:
        if self._type is not None:
            return self
        paths = list_files()
        if not paths:
            raise InvalidTypeError("there is no Parquet file yet that tells the type of the records: give type_info")
        with _open(paths[0]) as file:
            schema = file.schema_arrow
        chosen = schema.names if self._columns is None else self._columns
        missing = [name for name in chosen if name not in schema.names]
        if missing:
            raise InvalidTypeError(f"{paths[0]} has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        kind = type_of_schema(pa.schema([schema.field(name) for name in chosen]))
        return ParquetFormat(chosen, kind, batch_size=self._batch_size, case_sensitive=self._case_sensitive)

    def extent(self, path: str, size: int) -> FileExtent:
        with _open(path) as file:
            ends = _group_ends(file)
        rows = ends[-1]
        return FileExtent(rows, bytes_per_unit=size / max(rows, 1), preferred_cuts=tuple(ends[1:-1]))

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        schema = layout_of(self.produced_type).schema
        with _open(part.path) as file:
            names = self._names_in(file, part.path, schema.names)
            for batch in _rows(file, part, names, self._batch_size):
                yield Decoded(_conform(batch, names, schema, part.path))

    def _names_in(self, file: pq.ParquetFile, path: str, wanted: Sequence[str]) -> list[str]:
        """The names that the file gives to the wanted columns."""
        found = file.schema_arrow.names
        if not self._case_sensitive:
            by_lower = {name.lower(): name for name in found}
            wanted = [by_lower.get(name.lower(), name) for name in wanted]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise BadRecordError(f"{path} has no column {missing[0]!r}; it has {', '.join(found)}")
        return list(wanted)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """The same with PyFlink's arguments.

    Args:
        row_type: the type of the records.
        hadoop_config: not used.
        batch_size: how many rows are read at once.
        is_utc_timestamp: not used: times without a zone are read as they are written.
        is_case_sensitive: whether names of columns have to be spelled exactly.
    """

    def __init__(
        self,
        row_type: TypeInformation | type,
        hadoop_config: object | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__(type_info=row_type, batch_size=batch_size, case_sensitive=is_case_sensitive)


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except pa.ArrowInvalid as error:
        raise BadRecordError(f"{path} is not a Parquet file: {error}") from error


def _group_ends(file: pq.ParquetFile) -> list[int]:
    """Where row groups begin and end: 0, the ends, the last of which is the number of rows."""
    groups = range(file.metadata.num_row_groups)
    return list(accumulate((file.metadata.row_group(index).num_rows for index in groups), initial=0))


def _rows(file: pq.ParquetFile, part: FileRange, names: list[str], batch_size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a part. Within a row group reading begins at its first row, for pages have no index."""
    for index, (first, end) in enumerate(pairwise(_group_ends(file))):
        if end <= part.start or first >= part.end:
            continue
        at = first
        for batch in file.iter_batches(batch_size, row_groups=[index], columns=names, use_threads=False):
            start, stop = max(part.start - at, 0), min(part.end - at, batch.num_rows)
            if start < stop:
                yield batch.slice(start, stop - start)
            at += batch.num_rows
            if at >= part.end:
                break


def _conform(batch: pa.RecordBatch, names: list[str], schema: pa.Schema, path: str) -> pa.RecordBatch:
    """The columns under the schema of the produced type."""
    try:
        arrays = [_cast(batch.column(name), field.type) for name, field in zip(names, schema, strict=True)]
    except pa.ArrowException as error:
        raise BadRecordError(f"{path} does not fit the type of the records: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
