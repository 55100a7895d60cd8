"""Records of Avro in Parquet files, under PyFlink's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import InvalidTypeError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.avro.schema import Array, Map, Record, Union, is_null, schema_given
from headrace.formats.avro.types import GenericRecordAvroTypeInfo
from headrace.formats.parquet.reader import ParquetFormat
from headrace.formats.parquet.writer import ParquetBulkWriters

if TYPE_CHECKING:
    from headrace.formats.avro.schema import AvroSchema, GivenSchema, Node
    from headrace.formats.encoders import BulkWriterFactory


@hides_engine_of_methods
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


@hides_engine_of_methods
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
    if is_null(node) or (isinstance(node, Union) and len(node.present) != 1):
        raise InvalidTypeError(f"{where} has no column in Parquet: it is null, or one of several types of Avro")
    if isinstance(node, Record):
        for field in node.fields:
            _refuse(field.node, f"{where}.{field.name}")
    elif isinstance(node, Array):
        _refuse(node.items, f"{where}[]")
    elif isinstance(node, Map):
        _refuse(node.values, f"{where}[]")
    elif isinstance(node, Union):
        _refuse(node.present[0], where)
