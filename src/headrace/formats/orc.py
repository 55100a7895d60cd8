"""ORC files: read stripe by stripe, written, and joined into larger ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import ConfigurationError, CorruptFileError, InvalidTypeError
from headrace.common.typeinfo import TypeInformation
from headrace.formats.bad_records import columns_as
from headrace.formats.bulk_files import (
    ColumnFileFormat,
    ColumnWriterFactory,
    RowDecoder,
    check_hadoop_config,
    names_in_file,
    telling_damage,
)
from headrace.formats.file_format import BulkWriter, BulkWriterFactory, Decoded, FileExtent, FileRange
from headrace.formats.statistics import Statistics
from headrace.storage.files import InputFile, shown

__all__ = ["OrcBulkWriters", "OrcFormat"]


_BATCH_ROWS = 1 << 16


class OrcFormat(ColumnFileFormat):
    """Rows of ORC files, columns straight as they are. Several tasks may read stripes of one file.

    ORC has no checksums: damage is noticed where it breaks what holds the values together, and nowhere else. Moments
    are read from the years 1678 to 2261 alone, which is what Arrow's reader can give.

    Args:
        columns: which columns to read, in that order; all of them when left out.
        type_info: the type of the records, whose fields are looked up among the columns by name. When left out it is
            that of the first file that is there when the source is built.
        case_sensitive: whether names of columns have to be spelled exactly.

    Examples:
        >>> import pyarrow as pa
        >>> from pyarrow import orc
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.orc import OrcFormat
        >>> orc.write_table(pa.table({"id": [1, 2], "price": [2.5, 4.0], "shop": ["a", "b"]}), "prices.orc")
        >>> source = FileSource.for_bulk_file_format(OrcFormat(["id", "price"]), "prices.orc").build()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "prices").execute_and_collect(limit=10)
        [Row(id=1, price=2.5), Row(id=2, price=4.0)]
    """

    name = "ORC"

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        case_sensitive: bool = True,
    ) -> None:
        super().__init__(columns, type_info, case_sensitive=case_sensitive)

    def file_schema(self, file: InputFile) -> pa.Schema:
        with _open(file) as opened:
            return pa.schema(map(_in_micros, opened.schema))

    def extent(self, file: InputFile) -> FileExtent:
        with _open(file) as found:
            stripes, rows = found.nstripes, found.nrows
        each = max(stripes, 1)
        return FileExtent(stripes, bytes_per_unit=file.size / each, records_per_unit=rows / each)

    def statistics(self, file: InputFile) -> Statistics:
        with _open(file) as found:
            return Statistics(found.nrows)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        path, schema = shown(part.file.path), layout_of(self.produced_type).schema
        with _open(part.file) as file:
            names = names_in_file(path, file.schema.names, schema.names, case_sensitive=self._case_sensitive)
            rows = RowDecoder(path, names, self.produced_type, reject=reject)
            for stripe in range(part.start, min(part.end, file.nstripes)):
                try:
                    yield from _read_stripe(path, file, stripe, names, rows)
                except CorruptFileError as error:
                    yield Decoded(damage=CorruptFileError(f"{error} (stripe {stripe} of the file)"))


def _read_stripe(path: str, file: orc.ORCFile, stripe: int, names: list[str], rows: RowDecoder) -> Iterator[Decoded]:
    with telling_damage(f"{path} is damaged"):
        batch = file.read_stripe(stripe, columns=names)
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield rows.decoded(batch.slice(start, _BATCH_ROWS), start, f"of stripe {stripe}")


def _in_micros(field: pa.Field) -> pa.Field:
    """The field as a type of records has it: Arrow gives all moments of ORC in nanoseconds."""
    return field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) else field


@contextmanager
def _open(file: InputFile) -> Iterator[orc.ORCFile]:
    with file.open_for_arrow() as stream:
        with telling_damage(f"{shown(file.path)} is not an ORC file"):
            opened = orc.ORCFile(stream)
            _ = opened.schema.names  # which may be what is damaged
        yield opened


_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FAR_SECONDS: Final = (1 << 63) // _A_SECOND["ns"] - 1
"""So far from 1970 are moments that Arrow's reader may not take."""

_COMPRESSIONS: Final = ("none", "zlib", "snappy", "lz4", "zstd")


class OrcBulkWriters(ColumnWriterFactory):
    """Makes writers of ORC files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.orc import OrcBulkWriters
        >>> sink = FileSink.for_bulk_format("/data/out", OrcBulkWriters.for_row_type()).build()
    """

    name = "ORC"

    @staticmethod
    def for_row_type(
        row_type: TypeInformation | type | None = None,
        writer_properties: Mapping[str, str] | None = None,
        hadoop_config: object | None = None,
    ) -> BulkWriterFactory:
        """Writers of ORC files.

        Args:
            row_type: the names and types of the columns; those of the stream's records when left out.
            writer_properties: ``orc.compress`` (``NONE``, ``ZLIB``, which is the default, ``SNAPPY``, ``LZ4`` or
                ``ZSTD``) and ``orc.stripe.size`` in bytes.
            hadoop_config: without effect; a warning says so.

        Raises:
            ConfigurationError: when there is another property, or its value is none.
        """
        check_hadoop_config(hadoop_config)
        return OrcBulkWriters(row_type, **_options(writer_properties or {}))

    def validate(self, input_type: TypeInformation) -> None:
        super().validate(input_type)
        for field in layout_of(self.file_type(input_type)).schema:
            if _has_time(field.type):
                raise InvalidTypeError(f"column {field.name!r}: ORC has no times of day: write it as a string")

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        return _OrcWriter(out, self.file_type(input_type), self._options)


def _options(properties: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {"compression": "zlib"}
    for name, value in properties.items():
        if name == "orc.compress" and value.lower() in _COMPRESSIONS:
            options["compression"] = "uncompressed" if value.lower() == "none" else value.lower()
        elif name == "orc.stripe.size" and str(value).isdecimal() and int(value):
            options["stripe_size"] = int(value)
        else:
            raise ConfigurationError(
                f"{name}={value} is no property of ORC files: there are orc.compress "
                f"({', '.join(_COMPRESSIONS).upper()}) and orc.stripe.size, in bytes"
            )
    return options


def _has_time(kind: pa.DataType) -> bool:
    if pa.types.is_time(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_time(kind.field(index).type) for index in range(kind.num_fields))


class _OrcWriter(BulkWriter):
    """Puts batches together to stripes, which the library does."""

    def __init__(self, out: BinaryIO, kind: TypeInformation, options: dict[str, Any]) -> None:
        self._type = kind
        self._writer = orc.ORCWriter(out, **options)
        self._can_be_joined = True

    @property
    def can_be_joined(self) -> bool:
        """Arrow's reader fails at moments that are no nanoseconds of 64 bits."""
        return self._can_be_joined

    def add_batch(self, batch: Batch) -> None:
        columns = columns_as(batch, self._type)
        self._writer.write(pa.Table.from_batches([columns]))
        self._can_be_joined = self._can_be_joined and not any(map(_has_far_moments, columns.columns))

    def finish(self) -> None:
        self._writer.close()


def _has_far_moments(array: pa.Array) -> bool:
    if pa.types.is_timestamp(array.type):
        far = _FAR_SECONDS * _A_SECOND[array.type.unit]
        ends = pc.min_max(array.view(pa.int64())).as_py()
        return ends["min"] is not None and (ends["min"] <= -far or ends["max"] >= far)
    return any(map(_has_far_moments, _within(array)))


def _within(array: pa.Array) -> list[pa.Array]:
    """The arrays that an array is made of; perhaps with values that are not shown."""
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return [array.values]
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    return []


def join(files: Iterable[BinaryIO], out: BinaryIO, **options: Any) -> Iterator[None]:
    """Write the rows of all files into one, and yield now and then to have it taken away."""
    writer = orc.ORCWriter(out, **options)
    for file in files:
        found = orc.ORCFile(file)
        for stripe in range(found.nstripes):
            writer.write(pa.Table.from_batches([found.read_stripe(stripe)]))
            yield
    writer.close()
