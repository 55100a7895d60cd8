"""Writing files of Avro."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.typeinfo import CompositeTypeInfo, Types
from headrace.formats.avro.container import CODECS, MAGIC, open_blocks
from headrace.formats.avro.encoder import encode_records
from headrace.formats.avro.schema import AvroSchema, Record, avro_schema_of, schema_given
from headrace.formats.avro.varints import write_integer
from headrace.formats.columnar_messages import columns_as, refuse_other_fields
from headrace.formats.encoders import BulkWriter, BulkWriterFactory, bytes_of
from headrace.formats.joining import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.avro.schema import GivenSchema, Node


BLOCK_BYTES: Final = 1 << 16
"""About how large a block is before it is compressed; Avro's own library makes them as large."""

_GIVE_A_SCHEMA: Final = "give a schema to AvroBulkWriters.for_generic_record(), which takes rows as well"


class AvroBulkWriters:
    """Makes writers of Avro files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.avro import AvroBulkWriters, AvroSchema
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> writers = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(order))
        >>> sink = FileSink.for_bulk_format("/data/out", writers).build()
    """

    @staticmethod
    def for_generic_record(schema: GivenSchema, *, codec: str = "null") -> BulkWriterFactory:
        """Writers of records with the fields of a schema, dicts or rows.

        Args:
            schema: the schema of a record, or its text in JSON.
            codec: how blocks are compressed: ``null`` (they are not, as in Flink), ``deflate``, ``snappy``,
                ``zstandard``, ``bzip2``, ``xz`` or ``lz4``.

        Raises:
            InvalidTypeError: when the schema is none of a record.
            ConfigurationError: when there is no such codec.
        """
        given = schema_given(schema, "AvroBulkWriters.for_generic_record")
        return _AvroWriterFactory(given, None, legacy=True, codec=codec)

    @staticmethod
    def for_row_type(row_type: TypeInformation | type | None = None, *, codec: str = "snappy") -> BulkWriterFactory:
        """Writers of records of a type, in whose schema every field may be ``null``.

        Args:
            row_type: the names and types of the fields; those of the stream's records when left out.
            codec: as above.

        Raises:
            InvalidTypeError: when no schema of Avro can be made of the type.
            ConfigurationError: when there is no such codec.
        """
        kind = None if row_type is None else Types.of(row_type)
        schema = None if kind is None else avro_schema_of(kind, advice=_GIVE_A_SCHEMA)
        return _AvroWriterFactory(schema, kind, legacy=False, codec=codec)


class _AvroWriterFactory(BulkWriterFactory):
    """Makes writers of one schema.

    Args:
        schema: the schema; that of the stream's records when None.
        kind: the type that the schema was made of.
        legacy: see :meth:`AvroSchema.node`.
        codec: how blocks are compressed.
    """

    def __init__(self, schema: AvroSchema | None, kind: TypeInformation | None, *, legacy: bool, codec: str) -> None:
        if codec not in CODECS:
            raise ConfigurationError(f"there is no codec {codec!r} of Avro files: choose one of {', '.join(CODECS)}")
        self._schema = schema
        self._type = kind
        self._legacy = legacy
        self._codec = codec
        if schema is not None:
            self._node(schema)

    @property
    def suffix(self) -> str:
        return ".avro"

    def validate(self, input_type: TypeInformation) -> None:
        if input_type.arrow_type is None:
            raise InvalidTypeError("Avro needs records with columns: declare their type or annotate the function")
        if self._schema is None and not isinstance(input_type, CompositeTypeInfo):
            raise InvalidTypeError(
                f"files of Avro have records with fields, but these are of type {input_type}: make rows of them, with "
                "map(lambda value: Row(value), Types.ROW_NAMED([...], [...])), say"
            )
        schema = self._schema_for(input_type)
        refuse_other_fields(self._type or self._node(schema).type_info, input_type)

    def file_kind(self, input_type: TypeInformation) -> FileKind:
        return FileKind.of("avro", str(self._schema_for(input_type)), codec=self._codec)

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        schema = self._schema_for(input_type)
        return _AvroWriter(out, str(schema), self._node(schema), self._codec)

    def _schema_for(self, input_type: TypeInformation) -> AvroSchema:
        return avro_schema_of(input_type, advice=_GIVE_A_SCHEMA) if self._schema is None else self._schema

    def _node(self, schema: AvroSchema) -> Node:
        AvroSchema(str(schema)).node()  # a file has to say all by itself
        node = schema.node(legacy_timestamp_mapping=self._legacy)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"the records of Avro files have a schema of type record, not {schema}")
        return node


_MOST_EMPTY: Final = 1000


class _AvroWriter(BulkWriter):
    """Puts records together to blocks."""

    def __init__(self, out: BinaryIO, schema: str, node: Node, codec: str) -> None:
        self._blocks = AvroBlocks(out, schema, codec)
        self._node = node
        self._waiting: list[pa.Array] = []
        self._bytes = 0

    def add_batch(self, batch: Batch) -> None:
        records = encode_records(self._node, columns_as(batch, self._node.type_info))
        self._waiting.append(records)
        self._bytes += records.nbytes
        if self._bytes >= BLOCK_BYTES:
            self._write_blocks()

    def _write_blocks(self) -> None:
        """Write what waits as blocks of about equal size."""
        records = pa.concat_arrays(self._waiting)
        self._waiting, self._bytes = [], 0
        offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset : records.offset + len(records) + 1]
        blocks = (offsets[1:] - offsets[0]) // BLOCK_BYTES
        if offsets[-1] == offsets[0]:  # records of nothing but null, of which a reader takes so many in a block
            blocks = np.arange(len(records)) // _MOST_EMPTY
        bounds = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(records)]
        for first, last in pairwise(bounds):
            if last > first:
                self._blocks.write(last - first, bytes_of(records.slice(first, last - first)))

    def finish(self) -> None:
        if self._waiting:
            self._write_blocks()
        self._blocks.close()


class AvroBlocks:
    """A file of blocks.

    The marker between them follows from the schema and the first block, as an epoch that runs again has to write the
    same bytes.

    Args:
        out: the file.
        schema: that of all records.
        codec: how blocks are compressed.
    """

    def __init__(self, out: BinaryIO, schema: str, codec: str) -> None:
        self._out = out
        self._schema = schema.encode()
        self._codec = codec
        self._marker = b""

    def write(self, count: int, data: bytes) -> None:
        """Write a block of so many records."""
        stored = CODECS[self._codec].compress(data)
        self._begin(stored)
        self._out.write(write_integer(count) + write_integer(len(stored)) + stored + self._marker)

    def close(self) -> None:
        """No block follows; a file without any has its header."""
        self._begin(b"")

    def _begin(self, first: bytes) -> None:
        """Write the header, where it is not there yet."""
        if self._marker:
            return
        self._marker = hashlib.md5(self._schema + first, usedforsecurity=False).digest()
        metadata = {"avro.codec": self._codec.encode(), "avro.schema": self._schema}
        pairs = [write_integer(len(part)) + part for pair in metadata.items() for part in (pair[0].encode(), pair[1])]
        self._out.write(b"".join([MAGIC, write_integer(len(metadata)), *pairs, write_integer(0), self._marker]))


def join(files: Iterable[BinaryIO], out: BinaryIO, *, codec: str) -> Iterator[None]:
    """Write the records of all files into one; see :class:`~headrace.formats.joining.Joiner`."""
    written: AvroBlocks | None = None
    count, waiting, size = 0, [], 0
    for file in files:
        header, blocks = open_blocks(file, "a file that is joined")
        written = written or AvroBlocks(out, header.schema, codec)
        for block in blocks:
            count, size = count + block.count, size + len(block.data)
            waiting.append(block.data)
            if size >= BLOCK_BYTES:
                written.write(count, b"".join(waiting))
                count, waiting, size = 0, [], 0
                yield
    if written is not None:
        if waiting:
            written.write(count, b"".join(waiting))
        written.close()
