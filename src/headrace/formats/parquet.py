"""Parquet files: read row group by row group, written, joined into larger ones; records of Avro in them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import BinaryIO, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import ConfigurationError, CorruptFileError, InvalidTypeError
from headrace.common.typeinfo import TypeInformation
from headrace.formats.avro.schema import (
    Array,
    AvroSchema,
    GenericRecordAvroTypeInfo,
    GivenSchema,
    Map,
    Node,
    Record,
    UnionSchema,
    is_null,
    schema_given,
)
from headrace.formats.bulk_files import (
    ColumnFileFormat,
    ColumnWriterFactory,
    RowDecoder,
    check_hadoop_config,
    names_in_file,
    telling_damage,
)
from headrace.formats.file_format import BulkWriter, BulkWriterFactory, Decoded, FileExtent, FileRange
from headrace.formats.parquet_decimals import GroupColumns
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.storage.files import InputFile, shown

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]


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
    units_are_records = True

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
        self._condition: pc.Expression | None = None

    def filtered(self, condition: pc.Expression) -> Self:
        """A format that leaves out row groups of which statistics tell that no record meets a condition."""
        made = copy(self)
        made._condition = condition if self._condition is None else self._condition & condition
        return made

    def _wanted_groups(self, file: InputFile) -> frozenset[int] | None:
        """The row groups that may hold records that meet the condition; None for all.

        Statistics do not tell of numbers that are rounded when they are read.
        """
        if self._condition is None:
            return None
        with file.open_for_arrow() as stream, telling_damage(f"{shown(file.path)} is damaged"):
            fragment = pa.dataset.ParquetFileFormat().make_fragment(stream)
            if self._rounds(fragment.physical_schema):
                return None
            try:
                return frozenset(group.id for group in fragment.subset(self._condition).row_groups)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # columns of other types, or none
                return None

    def _rounds(self, stored: pa.Schema) -> bool:
        """Tell whether floats are read of columns of another type."""
        floats = [field for field in layout_of(self.produced_type).schema if pa.types.is_floating(field.type)]
        return any(each.type != field.type for field in floats for each in stored if each.name == field.name)

    def file_schema(self, file: InputFile) -> pa.Schema:
        with _open(file) as opened:
            return opened.schema_arrow

    def extent(self, file: InputFile) -> FileExtent:
        with _open(file) as parquet:
            ends = _group_ends(parquet, file.path)
        rows = ends[-1]
        each = file.size / max(rows, 1)
        return FileExtent(rows, bytes_per_unit=each, preferred_cuts=tuple(ends[1:-1]), cuts_cost_nothing=False)

    def statistics(self, file: InputFile) -> Statistics:
        with _open(file) as parquet:
            return _statistics_of(parquet.metadata)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        schema = layout_of(self.produced_type).schema
        path = part.file.path
        with part.file.open_for_arrow() as stream, _opened(stream, path) as plain:
            names = names_in_file(path, plain.schema_arrow.names, schema.names, case_sensitive=self._case_sensitive)
            texts = _few_texts(plain.metadata, names, schema)
            file = _opened(stream, path, plain.metadata, texts) if texts else plain
            rows = RowDecoder(shown(path), names, self.produced_type, reject=reject)
            wanted, columns = self._wanted_groups(part.file), GroupColumns(stream, file, names, self._batch_size)
            for group, (first, end) in enumerate(pairwise(_group_ends(file, path))):
                if end > part.start and first < part.end and (wanted is None or group in wanted):
                    yield from self._read_group(partial(columns.batches, group), rows, part, first, end)

    def _read_group(
        self, begin: Callable[[], Iterator[pa.RecordBatch]], rows: RowDecoder, part: FileRange, first: int, end: int
    ) -> Iterator[Decoded]:
        """The rows of one group that are in the part. Those behind damage are lost, up to the end of the group.

        Reading begins at the group's first row, for pages have no index; so the batches, and with them what is lost,
        are the same whatever the part.

        Args:
            begin: begins to read the group.
            rows: makes records of rows.
            part: the part.
            first: the first row of the group.
            end: the row after its last one.
        """
        path, at = shown(part.file.path), first
        try:
            with telling_damage(f"{path} is damaged"):
                batches = begin()
            while at < min(part.end, end):
                batch = _next_batch(batches, end - at, path)
                start, stop = max(part.start - at, 0), min(part.end - at, batch.num_rows)
                if start < stop:
                    yield rows.decoded(batch.slice(start, stop - start), at + start, "of the file")
                at += batch.num_rows
        except CorruptFileError as error:
            yield Decoded(damage=CorruptFileError(f"{error} (rows {at} to {end} of the file)"))


class ParquetColumnarRowInputFormat(ParquetFormat):
    """The same with PyFlink's arguments.

    Args:
        row_type: the type of the records.
        hadoop_config: without effect; a warning says so.
        batch_size: how many rows are read at once.
        is_utc_timestamp: changes nothing: times without a zone are read as they are written, as with true.
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
    with file.open_for_arrow() as stream, _opened(stream, file.path) as parquet:
        yield parquet


def _opened(
    stream: pa.NativeFile, path: str, footer: pq.FileMetaData | None = None, in_dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """A file whose columns ``in_dictionaries`` are read as positions in dictionaries."""
    with telling_damage(f"{shown(path)} is not a Parquet file"):
        parquet = pq.ParquetFile(
            stream,
            metadata=footer,
            read_dictionary=list(in_dictionaries),
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
        )
        _ = parquet.schema_arrow.names  # which may be what is damaged
    return parquet


def _few_texts(footer: pq.FileMetaData, names: Sequence[str], schema: pa.Schema) -> list[str]:
    """The columns of few different texts. To read their dictionaries and then look texts up takes half the time."""
    texts = [name for name, field in zip(names, schema, strict=True) if pa.types.is_string(field.type)]
    if not texts or not footer.num_row_groups:
        return []
    group = footer.row_group(0)
    chunks = {chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))}
    return [name for name in texts if name in chunks and _has_small_dictionary(chunks[name])]


def _has_small_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return False
    return bool(0 < chunk.data_page_offset - chunk.dictionary_page_offset <= _SMALL_DICTIONARY)


_SMALL_DICTIONARY: Final = 1 << 14
"""The most bytes of a dictionary of few texts."""


def _statistics_of(footer: pq.FileMetaData) -> Statistics:
    """The statistics in the footer of a file; columns are looked up on request."""
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]

    @cache
    def column(name: str) -> ColumnStatistics:
        if name not in places:
            return ColumnStatistics()
        return ColumnStatistics.of_all(_statistics_of_chunk(group.column(places[name])) for group in groups)

    return Statistics(footer.num_rows, column, is_exact=True)


def _statistics_of_chunk(chunk: pq.ColumnChunkMetaData) -> ColumnStatistics:
    found, distinct = chunk.statistics, _distinct_values(chunk)
    if found is None:
        return ColumnStatistics(distinct=distinct)
    nulls = found.null_count if found.has_null_count else None
    try:
        if not found.has_min_max:
            return ColumnStatistics(nulls, distinct=distinct)
        return ColumnStatistics(nulls, found.min, found.max, distinct)
    except (ValueError, OverflowError):  # days beyond the year 9999, and nanoseconds, are no values of Python
        return ColumnStatistics(nulls)


def _distinct_values(chunk: pq.ColumnChunkMetaData) -> float | None:
    """About how many different texts, or decimals, a chunk has: those of its dictionary; None where there is none.

    The dictionary holds few values more than there are where it became too large, and then there are many anyway.
    """
    size, found = _SIZES.get(chunk.physical_type), chunk.statistics
    if size is None and found is not None and found.logical_type.type == "DECIMAL":
        size = _INTEGER_SIZES[chunk.physical_type]
    if size is None or not chunk.has_dictionary_page:
        return None
    values = float(chunk.data_page_offset - chunk.dictionary_page_offset) / size
    return max(values, 1.0)


_SIZES: Final = {"BYTE_ARRAY": 10.0, "FIXED_LEN_BYTE_ARRAY": 8.0}
_INTEGER_SIZES: Final = {"INT32": 4.0, "INT64": 8.0}
"""The bytes of a value in a dictionary, on average; integers have one of them where they are decimals."""


def _group_ends(file: pq.ParquetFile, path: str) -> list[int]:
    """The bounds of row groups: 0, then the end of each; the last end is the number of rows."""
    groups = range(file.metadata.num_row_groups)
    ends = list(accumulate((file.metadata.row_group(index).num_rows for index in groups), initial=0))
    if ends != sorted(ends) or ends[-1] != file.metadata.num_rows:
        raise CorruptFileError(f"{shown(path)} is damaged: its row groups do not have as many rows as it says")
    return ends


def _next_batch(batches: Iterator[pa.RecordBatch], left: int, path: str) -> pa.RecordBatch:
    with telling_damage(f"{path} is damaged"):
        batch = next(batches, None)
    if batch is None or not 0 < batch.num_rows <= left:
        raise CorruptFileError(f"{path} is damaged: a row group does not have as many rows as it says")
    return batch


_COMPRESSIONS: Final = ("snappy", "zstd", "gzip", "brotli", "lz4", "none")

_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 64 << 20


class ParquetBulkWriters(ColumnWriterFactory):
    """Makes writers of Parquet files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.parquet import ParquetBulkWriters
        >>> sink = FileSink.for_bulk_format("/data/out", ParquetBulkWriters.for_row_type()).build()
    """

    name = "Parquet"

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
            utc_timestamp: changes nothing: times are written as they are, those with a zone as UTC, as with true.
            compression: ``snappy``, ``zstd``, ``gzip``, ``brotli``, ``lz4`` or ``none``.

        Raises:
            ConfigurationError: when there is no such compression.
        """
        check_hadoop_config(hadoop_config)
        if str(compression).lower() not in _COMPRESSIONS:
            raise ConfigurationError(
                f"there is no compression {compression!r} of Parquet files: choose one of {', '.join(_COMPRESSIONS)}"
            )
        return ParquetBulkWriters(row_type, compression=compression)

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        return RowGroupWriter(out, layout_of(self.file_type(input_type)).schema, **self._options)


class RowGroupWriter(BulkWriter):
    """Puts columns together to row groups, so that small batches do not make a file of small row groups.

    Args:
        out: the file.
        schema: that of all columns.
        compression: as :meth:`ParquetBulkWriters.for_row_type` has it.
    """

    def __init__(self, out: BinaryIO, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        # Decimals of up to 18 digits as Spark writes them, which are read in a fraction of the time
        self._writer = pq.ParquetWriter(
            out, schema, compression=compression, write_page_checksum=True, store_decimal_as_integer=True
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add_batch(self, batch: Batch) -> None:
        columns = batch.columns
        if columns.schema != self._schema:
            arrays = [array.cast(f.type) for array, f in zip(columns.columns, self._schema, strict=True)]
            columns = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.add(columns)

    def add(self, columns: pa.RecordBatch) -> None:
        """Write some rows, which have the schema."""
        self._waiting.append(columns)
        self._rows += columns.num_rows
        self._bytes += columns.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting = []
        self._rows = self._bytes = 0


class AvroParquetReaders:
    """Makes formats that read records of Avro from Parquet files.

    Examples:
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.avro import AvroSchema
        >>> from headrace.datastream.formats.parquet import AvroParquetReaders
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> orders = AvroParquetReaders.for_generic_record(AvroSchema.parse_string(order))
        >>> source = FileSource.for_record_stream_format(orders, "/data/orders")
    """

    @staticmethod
    def for_generic_record(schema: GivenSchema) -> ParquetFormat:
        """A format that reads records as dicts; columns are found by the names of the schema's fields.

        Raises:
            InvalidTypeError: when the schema is none of a record, or a field may be one of several types.
        """
        given = _with_columns(schema, "AvroParquetReaders.for_generic_record")
        return ParquetFormat(type_info=GenericRecordAvroTypeInfo(given))


class AvroParquetWriters:
    """Makes writers of Parquet files for records of Avro.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.avro import AvroSchema
        >>> from headrace.datastream.formats.parquet import AvroParquetWriters
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> writers = AvroParquetWriters.for_generic_record(AvroSchema.parse_string(order))
        >>> sink = FileSink.for_bulk_format("/data/out", writers).build()
    """

    @staticmethod
    def for_generic_record(schema: GivenSchema) -> BulkWriterFactory:
        """Writers of the columns that a schema describes; enums and decimals are written as strings.

        Raises:
            InvalidTypeError: when the schema is none of a record, or a field may be one of several types.
        """
        given = _with_columns(schema, "AvroParquetWriters.for_generic_record")
        return ParquetBulkWriters.for_row_type(GenericRecordAvroTypeInfo(given))


def _with_columns(schema: GivenSchema, method: str) -> AvroSchema:
    """The schema that a program gives, unless its records have no columns."""
    given = schema_given(schema, method)
    node = given.node()
    if isinstance(node, Record):
        _refuse(node, node.name)
    return given


def _refuse(node: Node, where: str) -> None:
    if is_null(node) or (isinstance(node, UnionSchema) and len(node.present) != 1):
        raise InvalidTypeError(f"{where} has no column in Parquet: it is null, or one of several types of Avro")
    if isinstance(node, Record):
        for field in node.fields:
            _refuse(field.node, f"{where}.{field.name}")
    elif isinstance(node, Array):
        _refuse(node.items, f"{where}[]")
    elif isinstance(node, Map):
        _refuse(node.values, f"{where}[]")
    elif isinstance(node, UnionSchema):
        _refuse(node.present[0], where)


def join(files: Iterable[BinaryIO], out: BinaryIO, *, compression: str) -> Iterator[None]:
    """Write the rows of all files into one, and yield now and then to have it taken away."""
    groups: RowGroupWriter | None = None
    for file in files:
        with pq.ParquetFile(file) as found:
            groups = groups or RowGroupWriter(out, found.schema_arrow, compression)
            for columns in found.iter_batches():
                groups.add(columns)
                yield
    if groups is not None:
        groups.finish()
