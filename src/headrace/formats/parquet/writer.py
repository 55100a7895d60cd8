"""Writing Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.common.columns import layout_of
from headrace.common.errors import ConfigurationError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.bulk_files import ColumnWriterFactory, check_hadoop_config
from headrace.formats.encoders import BulkWriter
from headrace.formats.joining import FileKind

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.encoders import BulkWriterFactory

_COMPRESSIONS: Final = ("snappy", "zstd", "gzip", "brotli", "lz4", "none")

_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 64 << 20


@hides_engine_of_methods
class ParquetBulkWriters:
    """Makes writers of Parquet files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.parquet import ParquetBulkWriters
        >>> sink = FileSink.for_bulk_format("/data/out", ParquetBulkWriters.for_row_type()).build()
    """

    @staticmethod
    def for_row_type(
        row_type: TypeInformation | type | None = None,
        hadoop_config: object | None = None,
        utc_timestamp: bool = False,
        *,
        compression: str = "snappy",
    ) -> BulkWriterFactory:
        """Writers of Parquet files.

        Args:
            row_type: the names and types of the columns; those of the stream's records when left out.
            hadoop_config: without effect; a warning says so.
            utc_timestamp: changes nothing: times are written as they are, those with a zone as UTC, as true asks for.
            compression: ``snappy``, ``zstd``, ``gzip``, ``brotli``, ``lz4`` or ``none``.

        Raises:
            ConfigurationError: when there is no such compression.
        """
        check_hadoop_config(hadoop_config)
        if str(compression).lower() not in _COMPRESSIONS:
            raise ConfigurationError(
                f"there is no compression {compression!r} of Parquet files: choose one of {', '.join(_COMPRESSIONS)}"
            )
        return _ParquetWriterFactory(row_type, compression)


class _ParquetWriterFactory(ColumnWriterFactory):
    name = "Parquet"

    def __init__(self, kind: TypeInformation | type | None, compression: str) -> None:
        super().__init__(kind)
        self._compression = compression

    def file_kind(self, input_type: TypeInformation) -> FileKind:
        schema = layout_of(self.file_type(input_type)).schema
        return FileKind.of("parquet", schema.to_string(truncate_metadata=False), compression=self._compression)

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        return _ParquetWriter(out, layout_of(self.file_type(input_type)).schema, self._compression)


class _ParquetWriter(BulkWriter):
    def __init__(self, out: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._groups = RowGroups(out, schema, compression)

    def add_batch(self, batch: Batch) -> None:
        columns = batch.columns
        if columns.schema != self._schema:
            arrays = [array.cast(f.type) for array, f in zip(columns.columns, self._schema, strict=True)]
            columns = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._groups.add(columns)

    def finish(self) -> None:
        self._groups.close()


class RowGroups:
    """Puts columns together to row groups, so that small batches do not make a file of small row groups.

    Args:
        out: the file.
        schema: that of all columns.
        compression: as :meth:`ParquetBulkWriters.for_row_type` has it.
    """

    def __init__(self, out: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(out, schema, compression=compression, write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, columns: pa.RecordBatch) -> None:
        """Write some rows."""
        self._waiting.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting = []
        self._rows = self._bytes = 0
