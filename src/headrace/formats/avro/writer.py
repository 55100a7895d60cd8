"""Writing Avro: columns as encoded records, and records as files.

Each column is encoded as a whole; then the bytes of all columns are joined row by row.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_array, valid_mask
from headrace.common.batch import Batch
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import ConfigurationError, CorruptFileError, InvalidTypeError
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation, Types
from headrace.common.values import handler_of
from headrace.common.values.handler import TypeHandler
from headrace.formats.avro.encoding import to_stored, write_integer, write_varints, zigzag
from headrace.formats.avro.files import CODECS, MAGIC, AvroFile
from headrace.formats.avro.schema import (
    Array,
    AvroSchema,
    Enum,
    Fixed,
    GivenSchema,
    Map,
    Node,
    Primitive,
    Record,
    UnionSchema,
    avro_schema_of,
    is_null,
    schema_given,
)
from headrace.formats.bad_records import columns_under, refuse_other_fields
from headrace.formats.file_format import BulkWriter, BulkWriterFactory, FileKind, bytes_of


def decimals_as_texts(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Columns whose decimals are texts, digit by digit, as those of Avro are."""
    if not any(pa.types.is_decimal(field.type) for field in columns.schema):
        return columns
    arrays = [array.cast(pa.string()) if pa.types.is_decimal(array.type) else array for array in columns.columns]
    return pa.RecordBatch.from_arrays(arrays, names=columns.schema.names)


def encode_records(node: Node, columns: pa.RecordBatch) -> pa.Array:
    """The bytes of records.

    Args:
        node: the schema.
        columns: the records, under the schema of the node's type.

    Raises:
        InvalidTypeError: when a value does not fit the schema; the message names the row and the field.
    """
    if isinstance(node, Record):
        return _joined(
            [_encoded(f.node, c, f.name) for f, c in zip(node.fields, columns.columns, strict=True)], columns
        )
    return _encoded(node, columns.column(0), "the value")


def _encoded(node: Node, array: pa.Array, where: str) -> pa.Array:
    """The bytes of the values of a column, none of them null."""
    if isinstance(node, UnionSchema):
        return _union(node, array, where)
    if array.null_count and not is_null(node):
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidTypeError(f"row {row}, {where}: got None, which the Avro schema does not take there")
    encode: Callable[[Any, pa.Array, str], pa.Array] = _ENCODED[type(node)]
    return encode(node, array, where)


def _joined(parts: list[pa.Array], rows: Any) -> pa.Array:
    """The bytes of several columns, row by row."""
    if not parts:
        return pa.array([b""] * len(rows), pa.binary())
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _integers(values: npt.NDArray[np.int64]) -> pa.Array:
    return write_varints(zigzag(values))


def _primitive(node: Primitive, array: pa.Array, where: str) -> pa.Array:
    array = to_stored(node, array, where)
    match node.kind:
        case "null":
            return pa.array([b""] * len(array), pa.binary())
        case "boolean":
            return _of_width(array.to_numpy(zero_copy_only=False).astype(np.uint8), 1)
        case "int" | "long":
            return _integers(array.to_numpy(zero_copy_only=False).astype(np.int64))
        case "float" | "double":
            values = array.to_numpy(zero_copy_only=False)
            return _of_width(values.astype(values.dtype.newbyteorder("<")).view(np.uint8), values.dtype.itemsize)
    data = array.cast(pa.binary())
    return _joined([_integers(pc.binary_length(data).to_numpy(zero_copy_only=False).astype(np.int64)), data], data)


def _of_width(data: npt.NDArray[np.uint8], width: int) -> pa.Array:
    return binary_array(data, np.arange(len(data) // width + 1) * width)


def _fixed(node: Fixed, array: pa.Array, where: str) -> pa.Array:
    data = to_stored(node, array, where)
    wrong = pc.not_equal(pc.binary_length(data), node.size)
    if pc.any(wrong, min_count=0).as_py():
        found = len(data.filter(wrong)[0].as_py())
        raise InvalidTypeError(f"{where}: got {found} bytes, and {node.name} of the Avro schema has {node.size}")
    return data


def _enum(node: Enum, array: pa.Array, where: str) -> pa.Array:
    places = pc.index_in(array, pa.array(node.symbols, pa.string()))
    if places.null_count:
        unknown = array.filter(places.is_null())[0].as_py()
        raise InvalidTypeError(f"{where}: {node.name} of the Avro schema has no symbol {unknown!r}")
    return _integers(places.to_numpy(zero_copy_only=False).astype(np.int64))


def _record(node: Record, array: pa.Array, where: str) -> pa.Array:
    parts = [_encoded(f.node, c, f"{where}.{f.name}") for f, c in zip(node.fields, array.flatten(), strict=True)]
    return _joined(parts, array)


def _array(node: Array, array: pa.Array, where: str) -> pa.Array:
    return _in_one_block(array.offsets, _encoded(node.items, array.flatten(), f"{where}[]"))


def _map(node: Map, array: pa.Array, where: str) -> pa.Array:
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys, items = (part.slice(start, stop - start) for part in (array.keys, array.items))
    text = Primitive("string", Types.STRING())
    entries = _joined([_encoded(text, keys, f"{where}, key"), _encoded(node.values, items, f"{where}[]")], keys)
    return _in_one_block(array.offsets, entries)


def _in_one_block(offsets: pa.Array, elements: pa.Array) -> pa.Array:
    """Return how many elements there are, the elements, and a zero; where there are none, the zero alone."""
    bounds = offsets.to_numpy() - offsets[0].as_py()
    counts = np.diff(bounds).astype(np.int64)
    together = pc.binary_join(
        pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements), pa.scalar(b"", pa.binary())
    )
    numbers = pc.if_else(pa.array(counts > 0), _integers(counts), pa.scalar(b"", pa.binary()))
    ends = pa.repeat(pa.scalar(b"\x00", pa.binary()), len(counts))
    return _joined([numbers, together, ends], counts)


def _union(node: UnionSchema, array: pa.Array, where: str) -> pa.Array:
    present = node.present
    if len(present) > 1:
        return _union_of_objects(node, array, where)
    nullable = len(node.branches) > len(present)
    if not nullable or not present:
        number = _integers(np.zeros(len(array), np.int64))
        return _joined([number, _encoded(node.branches[0], array, where)], array)
    null_number = int(is_null(node.branches[1]))
    valid = valid_mask(array)
    numbers = _integers(np.where(valid, 1 - null_number, null_number))
    dense = _encoded(present[0], array.drop_null(), where)
    values = dense.take(pa.array(np.cumsum(valid) - 1, mask=~valid)).fill_null(b"")
    return _joined([numbers, values], array)


def _union_of_objects(node: UnionSchema, array: pa.Array, where: str) -> pa.Array:
    """Objects as values of the branches that fit; the values of each branch are encoded together."""
    values = array_to_values(Types.PICKLED_BYTE_ARRAY(), array)
    kinds = [(number, handler_of(branch.type_info)) for number, branch in enumerate(node.branches)]
    nulls = [number for number, branch in enumerate(node.branches) if is_null(branch)]
    kinds = [(number, handler) for number, handler in kinds if number not in nulls]
    numbers = np.array([_branch_of(value, kinds, nulls, where) for value in values], np.int64)
    parts, rows = [], []
    for number, branch in enumerate(node.branches):
        chosen = np.flatnonzero(numbers == number)
        if len(chosen):
            column = values_to_array(branch.type_info, [values[row] for row in chosen])
            parts.append(_encoded(branch, column, where))
            rows.append(chosen)
    bodies = pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows)))) if parts else array
    return _joined([_integers(numbers), bodies], array)


def _branch_of(value: object, kinds: Sequence[tuple[int, TypeHandler]], nulls: Sequence[int], where: str) -> int:
    """The first branch whose type a value has, or into which it can be made."""
    if value is None:
        if nulls:
            return nulls[0]
        raise InvalidTypeError(f"{where}: got None, which the Avro schema does not take there")
    for number, handler in kinds:
        if handler.is_coerced(value):
            return number
    for number, handler in kinds:
        try:
            handler.coerce(value)
        except InvalidTypeError:
            continue
        return number
    raise InvalidTypeError(f"{where}: {value!r} fits none of the types that the Avro schema has there")


_ENCODED: Final[dict[type, Callable[[Any, pa.Array, str], pa.Array]]] = {
    Primitive: _primitive,
    Fixed: _fixed,
    Enum: _enum,
    Record: _record,
    Array: _array,
    Map: _map,
}


BLOCK_BYTES: Final = 1 << 16
"""About how large a block is before it is compressed; Avro's own library makes them as large."""

_GIVE_A_SCHEMA: Final = "give a schema to AvroBulkWriters.for_generic_record(), which takes rows as well"


class AvroBulkWriters(BulkWriterFactory):
    """Makes writers of Avro files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.avro import AvroBulkWriters, AvroSchema
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> writers = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(order))
        >>> sink = FileSink.for_bulk_format("/data/out", writers).build()
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
        return AvroBulkWriters(given, None, legacy=True, codec=codec)

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
        return AvroBulkWriters(schema, kind, legacy=False, codec=codec)

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
        return AvroWriter(out, str(schema), self._codec, self._node(schema))

    def _schema_for(self, input_type: TypeInformation) -> AvroSchema:
        return avro_schema_of(input_type, advice=_GIVE_A_SCHEMA) if self._schema is None else self._schema

    def _node(self, schema: AvroSchema) -> Node:
        AvroSchema(str(schema)).node()  # a file has to say all by itself
        node = schema.node(legacy_timestamp_mapping=self._legacy)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"the records of Avro files have a schema of type record, not {schema}")
        return node


_MOST_EMPTY: Final = 1000


class AvroWriter(BulkWriter):
    """Puts records together to blocks.

    The marker between them follows from the schema and the first block, as an epoch that runs again has to write the
    same bytes.

    Args:
        out: the file.
        schema: that of all records.
        codec: how blocks are compressed.
        node: the same schema, where records are not blocks already.
    """

    def __init__(self, out: BinaryIO, schema: str, codec: str, node: Node | None = None) -> None:
        self._out = out
        self._schema = schema.encode()
        self._codec = codec
        self._node = node
        self._marker = b""
        self._waiting: list[pa.Array] = []
        self._bytes = 0

    def add_batch(self, batch: Batch) -> None:
        assert self._node is not None, "it is there where records are encoded"
        records = encode_records(self._node, columns_under(decimals_as_texts(batch.columns), self._node.type_info))
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
                self.write(last - first, bytes_of(records.slice(first, last - first)))

    def finish(self) -> None:
        if self._waiting:
            self._write_blocks()
        self._begin(b"")  # a file without any block has its header

    def write(self, count: int, data: bytes) -> None:
        """Write a block of so many records."""
        stored = CODECS[self._codec][0](data)
        self._begin(stored)
        self._out.write(write_integer(count) + write_integer(len(stored)) + stored + self._marker)

    def _begin(self, first: bytes) -> None:
        """Write the header, where it is not there yet."""
        if self._marker:
            return
        self._marker = hashlib.md5(self._schema + first, usedforsecurity=False).digest()
        metadata = {"avro.codec": self._codec.encode(), "avro.schema": self._schema}
        pairs = [write_integer(len(part)) + part for pair in metadata.items() for part in (pair[0].encode(), pair[1])]
        self._out.write(b"".join([MAGIC, write_integer(len(metadata)), *pairs, write_integer(0), self._marker]))


def join(files: Iterable[BinaryIO], out: BinaryIO, *, codec: str) -> Iterator[None]:
    """Write the records of all files into one, and yield now and then to have it taken away."""
    written: AvroWriter | None = None
    count, waiting, size = 0, [], 0
    for file in files:
        opened = AvroFile(file, None, "a file that is joined")
        written = written or AvroWriter(out, opened.schema, codec)
        for block in opened.blocks():
            if isinstance(block, CorruptFileError):
                raise block
            count, size = count + block.count, size + len(block.data)
            waiting.append(block.data)
            if size >= BLOCK_BYTES:
                written.write(count, b"".join(waiting))
                count, waiting, size = 0, [], 0
                yield
    if written is not None:
        if waiting:
            written.write(count, b"".join(waiting))
        written.finish()
