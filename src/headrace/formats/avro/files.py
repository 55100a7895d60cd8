"""Reading files of Avro, measured in bytes."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from headrace.common.errors import CorruptFileError, InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.formats.avro.boundaries import Boundaries
from headrace.formats.avro.container import FileBlock, read_blocks, read_header
from headrace.formats.avro.resolution import avro_reader
from headrace.formats.avro.schema import AvroSchema, Record, avro_schema_of, schema_given
from headrace.formats.avro.varints import binary_array
from headrace.formats.bad_records import BadRecords, without_unreadable
from headrace.formats.bulk_files import WAY_OUT, SelfDescribingFormat
from headrace.formats.columnar_messages import columns_under, decode_good_messages
from headrace.formats.file_format import Decoded, FileExtent
from headrace.storage.files import shown

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.avro.resolution import AvroReader
    from headrace.formats.avro.schema import GivenSchema
    from headrace.formats.file_format import FileRange
    from headrace.storage.files import InputFile

_BATCH_BYTES: Final = 4 << 20
"""Blocks are read together up to about so many bytes: values of all their records side by side."""


class AvroFormat(SelfDescribingFormat):
    """Records of Avro files, read into columns. Several tasks may read blocks of one file.

    A file says what it was written with; its records are read as those of the schema that is given, as the
    specification says: fields by name or alias, defaults, wider numbers.

    Args:
        schema: the schema of the records, or its text. When it is left out, as ``type_info``, it is that of the first
            file that is there when the source is built.
        type_info: the type of the records, in place of a schema: each of its fields may be ``null``.
        legacy_timestamp_mapping: whether moments of a schema are times without a zone, as in Flink; else they are
            times of UTC.

    Raises:
        InvalidProgramError: when the schema is none, or both are given.
        InvalidTypeError: when no schema can be made of the type.

    Examples:
        >>> from headrace.common import Row, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSink, FileSource
        >>> from headrace.datastream.formats.avro import AvroBulkWriters, AvroFormat
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = env.from_collection([Row(id=1, price=2.5), Row(id=2, price=4.0)])
        >>> sink = FileSink.for_bulk_format("prices", AvroBulkWriters.for_row_type()).build()
        >>> _ = prices.sink_to(sink)
        >>> _ = env.execute()
        >>> source = FileSource.for_bulk_file_format(AvroFormat(), "prices").build()
        >>> read = env.from_source(source, WatermarkStrategy.no_watermarks(), "prices")
        >>> read.execute_and_collect(limit=10)
        [Row(id=1, price=2.5), Row(id=2, price=4.0)]
    """

    name = "Avro"
    declared_by = "a schema or type_info"

    as_dicts = False
    """Whether records are dicts; else they are rows."""

    def __init__(
        self,
        schema: GivenSchema | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        legacy_timestamp_mapping: bool = True,
    ) -> None:
        if schema is not None and type_info is not None:
            raise InvalidProgramError("an AvroFormat takes a schema or type_info, not both")
        self._legacy = legacy_timestamp_mapping
        self._type = None if type_info is None else Types.of(type_info)
        self._schema = None if schema is None else schema_given(schema, type(self).__name__)
        if self._type is not None:
            self._legacy = False  # a type says itself which of its times have a zone
            self._schema = avro_schema_of(self._type, advice="give a schema in place of type_info")
        elif self._schema is not None:
            self._type = self._type_of(self._schema)

    def _type_of(self, schema: AvroSchema) -> TypeInformation:
        node = schema.node(legacy_timestamp_mapping=self._legacy, as_dicts=self.as_dicts)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"the records of Avro files have a schema of type record, not {schema}")
        return node.type_info

    def _resolved(self, file: InputFile) -> Self:
        resolved = copy(self)
        try:
            resolved._schema = AvroSchema(read_header(file).schema)
            resolved._type = resolved._type_of(resolved._schema)
        except (InvalidProgramError, InvalidTypeError) as error:
            raise InvalidTypeError(f"{shown(file.path)}: {error}") from error
        return resolved

    def extent(self, file: InputFile) -> FileExtent:
        self._reader(file)
        first = next(read_blocks(file, 0, file.size), None)
        per_byte = first.count / first.stored if isinstance(first, FileBlock) else 1 / max(file.size, 1)
        return FileExtent(file.size, records_per_unit=per_byte)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        reader, boundaries = self._reader(part.file)
        kind, decode = self.produced_type, self._columns(reader)
        waiting = _Blocks(shown(part.file.path), boundaries, decode, kind, reject=reject)
        for block in read_blocks(part.file, part.start, part.end):
            damage = block if isinstance(block, CorruptFileError) else waiting.add(block)
            if damage is not None or waiting.bytes >= _BATCH_BYTES:
                yield from waiting.decoded()
            if damage is not None:
                yield Decoded(damage=damage)
        yield from waiting.decoded()

    def _reader(self, file: InputFile) -> tuple[AvroReader, Boundaries]:
        """What reads the records of a file.

        Raises:
            CorruptFileError: when they cannot be read as those of the format's schema.
        """
        assert self._schema is not None
        written = read_header(file).schema
        try:
            return _reader_of(written, self._schema, self._legacy, self.as_dicts)
        except InvalidProgramError as error:
            raise CorruptFileError(
                f"{shown(file.path)} does not fit the schema that it is read with: {error}"
            ) from error

    def _columns(self, reader: AvroReader) -> Callable[[pa.Array], pa.RecordBatch]:
        kind = self.produced_type
        return lambda messages: columns_under(reader.read(messages), kind)


@lru_cache(maxsize=64)
def _reader_of(written: str, schema: AvroSchema, legacy: bool, as_dicts: bool) -> tuple[AvroReader, Boundaries]:
    writer = AvroSchema(written)
    reader = avro_reader(writer, schema, legacy_timestamp_mapping=legacy, as_dicts=as_dicts)
    return reader, Boundaries(writer.node())


class _Blocks:
    """Blocks that are read together.

    Args:
        path: the file, for messages.
        boundaries: finds their records.
        decode: reads records as columns of the produced type.
        kind: the produced type.
        reject: whether records that cannot be read are handed over; else they are an error.
    """

    def __init__(
        self,
        path: str,
        boundaries: Boundaries,
        decode: Callable[[pa.Array], pa.RecordBatch],
        kind: TypeInformation,
        *,
        reject: bool,
    ) -> None:
        self._type = kind
        self._path = path
        self._boundaries = boundaries
        self._decode = decode
        self._bad_records = BadRecords(reject, "record", WAY_OUT)
        self._blocks: list[FileBlock] = []
        self._starts: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self.bytes = 0

    def add(self, block: FileBlock) -> CorruptFileError | None:
        """Take a block; gives what is wrong with one that has not the records that it should."""
        try:
            starts = self._boundaries.of(block.data, block.count, block.stored)
        except ValueError as error:
            return CorruptFileError(f"{self._path} is damaged: in the block at byte {block.offset}, {error}")
        self._blocks.append(block)
        self._starts.append(starts[:-1] + self.bytes)
        self.bytes += len(block.data)
        return None

    def decoded(self) -> Iterator[Decoded]:
        """The records of all blocks that were taken, which are forgotten then."""
        if not self._blocks:
            return
        data = np.frombuffer(b"".join(block.data for block in self._blocks), np.uint8)
        messages = binary_array(data, np.concatenate([*self._starts, [self.bytes]]))
        read = without_unreadable(decode_good_messages(self._decode, messages), self._type)
        rejected = [self._bad(messages, index, reason) for index, reason in read.rejected]
        self._blocks, self._starts, self.bytes = [], [], 0
        yield Decoded(read.columns, rejected=rejected)

    def _bad(self, messages: pa.Array, index: int, reason: str) -> tuple[str, str, str]:
        ends = np.cumsum([block.count for block in self._blocks])
        number = int(np.searchsorted(ends, index, side="right"))
        place = index - int(ends[number]) + self._blocks[number].count
        where = f"{self._path}: record {place} of the block at byte {self._blocks[number].offset}"
        return self._bad_records.letter(where, messages[index].as_py(), reason)


class AvroInputFormat(AvroFormat):
    """Files of Avro as records that are dicts, under PyFlink's name: for ``env.create_input()``, and for a FileSource.

    Args:
        path: a file, a folder or a pattern.
        schema: the schema of the records, or its text in JSON.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.formats.avro import AvroInputFormat, AvroSchema
        >>> schema = AvroSchema({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
        >>> AvroInputFormat("/data/orders", schema).get_produced_type().get_field_names()
        ['id']
    """

    as_dicts = True

    def __init__(self, path: str | os.PathLike[str], schema: GivenSchema) -> None:
        super().__init__(schema)
        self.path = path

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self.produced_type
