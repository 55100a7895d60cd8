"""Writing ORC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from headrace.common.columns import layout_of
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.bulk_files import ColumnWriterFactory, check_hadoop_config
from headrace.formats.columnar_messages import columns_as
from headrace.formats.encoders import BulkWriter
from headrace.formats.joining import FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.encoders import BulkWriterFactory

_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FAR_SECONDS: Final = (1 << 63) // _A_SECOND["ns"] - 1
"""So far from 1970 are moments that Arrow's reader may not take."""

_COMPRESSIONS: Final = ("none", "zlib", "snappy", "lz4", "zstd")


@hides_engine_of_methods
class OrcBulkWriters:
    """Makes writers of ORC files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.orc import OrcBulkWriters
        >>> sink = FileSink.for_bulk_format("/data/out", OrcBulkWriters.for_row_type()).build()
    """

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
        return _OrcWriterFactory(row_type, _options(writer_properties or {}))


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


class _OrcWriterFactory(ColumnWriterFactory):
    name = "ORC"

    def __init__(self, kind: TypeInformation | type | None, options: dict[str, Any]) -> None:
        super().__init__(kind)
        self._options = options

    def validate(self, input_type: TypeInformation) -> None:
        super().validate(input_type)
        for field in layout_of(self.file_type(input_type)).schema:
            if _has_time(field.type):
                raise InvalidTypeError(f"column {field.name!r}: ORC has no times of day: write it as a string")

    def file_kind(self, input_type: TypeInformation) -> FileKind:
        schema = layout_of(self.file_type(input_type)).schema
        return FileKind.of("orc", schema.to_string(truncate_metadata=False), **self._options)

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        return _OrcWriter(out, self.file_type(input_type), self._options)


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
