"""The built-in table formats, made from those of the DataStream API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, boolean, choice
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.logical_types import LogicalType
from headrace.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    DeserializedBatch,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from headrace.formats.avro.files import CODECS, AvroFormat
from headrace.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
from headrace.formats.avro.schema import avro_schema_of
from headrace.formats.avro.writer import AvroBulkWriters
from headrace.formats.cdc import schemas as cdc
from headrace.formats.cdc.changes import ChangesDeserializationSchema
from headrace.formats.csv.reader import CsvReaderFormat
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.csv.writer import CsvEncoder, CsvRowDeserializationSchema, CsvRowSerializationSchema
from headrace.formats.file_format import BulkWriterFactory, FileFormat
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.formats.json.writer import TIMESTAMP_FORMATS, JsonLinesEncoder
from headrace.formats.orc import OrcBulkWriters, OrcFormat
from headrace.formats.parquet import ParquetBulkWriters, ParquetFormat
from headrace.formats.text import TextLineEncoder, TextLineFormat
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.formats.table_format import TableFormat


def only_column(kind: TypeInformation) -> BasicType:
    """The type of the column.

    Raises:
        InvalidTypeError: when there are several, or it is neither text nor bytes.
    """
    assert isinstance(kind, RowTypeInfo)
    if len(kind.types) != 1:
        raise InvalidTypeError(
            f"format 'raw' is one column that is the whole message, not {len(kind.types)}: use 'csv' or 'json'"
        )
    (only,) = kind.types
    if not isinstance(only, BasicTypeInfo) or only.basic_type not in (BasicType.STRING, BasicType.BYTES):
        raise InvalidTypeError(f"format 'raw' is a column of STRING or BYTES, not {only}: CAST it in the query")
    return only.basic_type


class RawSchema(SerializationSchema, DeserializationSchema):
    """Reads and writes rows of one column.

    Args:
        kind: the type of the rows.
        charset: the encoding of text.

    Raises:
        InvalidTypeError: when there are several columns, or it is neither text nor bytes.
    """

    def __init__(self, kind: TypeInformation, charset: str) -> None:
        is_text = only_column(kind) is BasicType.STRING
        self._inner = SimpleStringSchema(charset) if is_text else ByteArraySchema()
        self._type = kind

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def deserialize(self, message: bytes) -> Any:
        return self._inner.deserialize(message)

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        present = messages.drop_null()
        read = self._inner.deserialize_batch(present)
        layout = layout_of(self._inner.get_produced_type())
        values = layout.rows_to_columns(read.rows or []) if read.columns is None else read.columns
        columns = pa.RecordBatch.from_arrays([values.column(0)], schema=layout_of(self._type).schema)
        if len(present) == len(messages):
            return DeserializedBatch(columns, messages=read.messages, rejected=read.rejected)
        places = messages.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
        rejected = [(int(places[index]), reason) for index, reason in read.rejected]
        return DeserializedBatch(
            columns, messages=places if read.messages is None else places[read.messages], rejected=rejected
        )

    def serialize(self, element: Any) -> bytes:
        """Refuse a single record: only batches are written."""
        raise TypeError("raw messages are written for batches, not for single rows")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        kind = self._inner.get_produced_type()
        columns = pa.RecordBatch.from_arrays([batch.columns.column(0)], schema=layout_of(kind).schema)
        return self._inner.serialize_batch(Batch(kind, batch.timestamps, batch.watermarks, columns=columns))


IGNORE_ERRORS: Final = ConfigOption("ignore-parse-errors", boolean, False, "Whether what cannot be read is left out.")


def _only(value: str, reason: str) -> Callable[[str], str]:
    """Reads an option that has one value here."""

    def read(text: str) -> str:
        if text.strip().lower() != value.lower():
            raise ValueError(f"{value}: {reason}")
        return value

    return read


# --- csv -------------------------------------------------------------------------------------------------------------

DELIMITER: Final = ConfigOption("field-delimiter", str, ",", "What separates columns.")
QUOTE: Final = ConfigOption("quote-character", str, '"', "What encloses values.")
NO_QUOTE: Final = ConfigOption("disable-quote-character", boolean, False, "Whether values are never quoted.")
COMMENTS: Final = ConfigOption("allow-comments", boolean, False, "Whether lines that begin with # are left out.")
ARRAY_DELIMITER: Final = ConfigOption("array-element-delimiter", str, ";", "What separates elements of arrays.")
ESCAPE: Final = ConfigOption[str | None]("escape-character", str, None, "What comes before special characters.")
NULL_LITERAL: Final = ConfigOption[str | None]("null-literal", str, None, "What stands for a missing value.")
HEADER: Final = ConfigOption("header", boolean, False, "Whether the first line of every file names the columns.")
_CSV: Final = (DELIMITER, QUOTE, NO_QUOTE, COMMENTS, ARRAY_DELIMITER, ESCAPE, NULL_LITERAL, HEADER, IGNORE_ERRORS)


def _csv_schema(kind: TypeInformation, options: Configuration) -> CsvSchema:
    return CsvSchema.of(
        kind,
        delimiter=options.get(DELIMITER),
        quote=None if options.get(NO_QUOTE) else options.get(QUOTE),
        comments=options.get(COMMENTS),
        array_separator=options.get(ARRAY_DELIMITER),
        escape=options.get(ESCAPE),
        null_value=options.get(NULL_LITERAL),
        header=options.get(HEADER),
    )


def _csv_messages(kind: TypeInformation, options: Configuration) -> DeserializationSchema:
    ignores = options.get(IGNORE_ERRORS)
    return CsvRowDeserializationSchema(kind, _csv_schema(kind, options), ignore_parse_errors=ignores)


def _csv_values(kind: TypeInformation, options: Configuration) -> SerializationSchema:
    return CsvRowSerializationSchema(kind, _csv_schema(kind, options))


# --- json ------------------------------------------------------------------------------------------------------------

FAIL_ON_MISSING: Final = ConfigOption("fail-on-missing-field", boolean, False, "Whether a missing field is an error.")
TIMESTAMP_FORMAT: Final = ConfigOption(
    "timestamp-format.standard", choice(*TIMESTAMP_FORMATS), "SQL", "How moments are written; both are read."
)
IGNORE_NULLS: Final = ConfigOption(
    "encode.ignore-null-fields", boolean, False, "Whether fields without a value are left out."
)
NULL_KEYS: Final = ConfigOption(
    "map-null-key.mode",
    _only("FAIL", "a NULL key of a map is an error"),
    "FAIL",
    "What becomes of a NULL key of a map.",
)
PLAIN_NUMBERS: Final = ConfigOption(
    "encode.decimal-as-plain-number",
    _only("true", "decimals are written without an exponent"),
    "true",
    "Decimals are always written without an exponent.",
)
_JSON: Final = (FAIL_ON_MISSING, IGNORE_ERRORS, TIMESTAMP_FORMAT, IGNORE_NULLS, NULL_KEYS, PLAIN_NUMBERS)


def _json_style(options: Configuration) -> dict[str, Any]:
    return {"timestamp_format": options.get(TIMESTAMP_FORMAT), "ignore_null_fields": options.get(IGNORE_NULLS)}


def _json_messages(kind: TypeInformation, options: Configuration) -> DeserializationSchema:
    return JsonRowDeserializationSchema(
        kind, fail_on_missing_field=options.get(FAIL_ON_MISSING), ignore_parse_errors=options.get(IGNORE_ERRORS)
    )


# --- avro, parquet, orc ----------------------------------------------------------------------------------------------

LEGACY_TIMES: Final = ConfigOption(
    "timestamp_mapping.legacy",
    _only("false", "Avro has types for them"),
    "false",
    "Times without a zone are 'local-timestamp-micros'.",
)
UTC_TIMES: Final = ConfigOption(
    "utc-timezone", _only("true", "times are written as they are"), "true", "Times are written as they are."
)
CODEC: Final = ConfigOption("codec", choice(*CODECS), "snappy", "How blocks of files are compressed.")
PARQUET_COMPRESSION: Final = ConfigOption(
    "compression", choice("snappy", "zstd", "gzip", "lz4", "none"), "snappy", "How files are compressed."
)
ORC_COMPRESS: Final = ConfigOption(
    "compress", choice("none", "zlib", "snappy", "lz4", "zstd"), "zlib", "How files are compressed."
)


def _avro_text(kind: TypeInformation) -> str:
    return str(avro_schema_of(kind, "record"))


def _orc_writer(_: TypeInformation, options: Configuration) -> BulkWriterFactory:
    return OrcBulkWriters.for_row_type(writer_properties={"orc.compress": options.get(ORC_COMPRESS)})


# --- raw -------------------------------------------------------------------------------------------------------------

CHARSET: Final = ConfigOption("charset", str, "UTF-8", "How characters are encoded.")


def _raw_lines(kind: TypeInformation, options: Configuration) -> str:
    if only_column(kind) is not BasicType.STRING:
        raise InvalidTypeError("files of the format 'raw' are lines of text: make the column a STRING")
    charset: str = options.get(CHARSET)
    return charset


# --- changes ---------------------------------------------------------------------------------------------------------

SCHEMA_INCLUDE: Final = ConfigOption("schema-include", boolean, False, "Whether messages hold their schema as well.")
DATABASE_INCLUDE: Final = ConfigOption[str | None](
    "database.include", str, None, "A regular expression of the databases whose changes are read."
)
TABLE_INCLUDE: Final = ConfigOption[str | None](
    "table.include", str, None, "A regular expression of the tables whose changes are read."
)


_ARGUMENTS: Final = {
    "ignore_parse_errors": IGNORE_ERRORS,
    "schema_include": SCHEMA_INCLUDE,
    "database_include": DATABASE_INCLUDE,
    "table_include": TABLE_INCLUDE,
}
"""Arguments of the schemas of changes, and their options."""


# --- the table -------------------------------------------------------------------------------------------------------

_NULL_KEY: Final = {"map-null-key.literal": "a NULL key of a map is an error; leave it out, or COALESCE the key"}
_OTHER_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {
        "write-bigdecimal-in-scientific-notation": "decimals are always written without an exponent; leave it out",
        "empty-string-as-null": "write NULLIF(column, '') in a query",
        "trim-spaces": "write TRIM(column) in a query",
        "allow-trailing-comma": "a line has a value for each column; leave it out",
        "fail-on-missing-columns": "a line with fewer values cannot be read, as with 'true'; leave it out",
        "ignore-trailing-unmappable": "a line with more values cannot be read, as with 'false'; leave it out",
    },
    "json": {**_NULL_KEY, "decode.json-parser.enabled": "there is one parser; leave it out"},
    **dict.fromkeys(("debezium-json", "canal-json", "maxwell-json", "ogg-json"), _NULL_KEY),
    "avro": {
        "encoding": "messages and files are binary; leave it out",
        "schema": "the schema is that of the columns; leave it out",
    },
    "parquet": {
        "batch-size": "rows are read by row groups; leave it out",
        "write.int64.timestamp": "times are always 64-bit integers, as with 'true'; leave it out",
        "timestamp.time.unit": "times are in microseconds; leave it out",
        "block.size": "a row group has up to 262,144 rows or 64 MiB; leave it out",
    },
    "orc": {},
    "raw": {"endianness": "the column is a STRING or BYTES, and CAST in a query"},
}
_OF_FILES: Final[Mapping[str, Sequence[ConfigOption]]] = {"avro": (CODEC,), "csv": (HEADER,)}
"""Options that mean nothing in messages."""

_OF_MESSAGES: Final[Mapping[str, Sequence[ConfigOption]]] = {"json": (FAIL_ON_MISSING,)}
"""Options that mean nothing in files."""

_Messages = Callable[[TypeInformation, Configuration], DeserializationSchema]
_Values = Callable[[TypeInformation, Configuration], SerializationSchema]
_Files = Callable[[TypeInformation, Configuration], FileFormat]
_Writer = Callable[[TypeInformation, Configuration], "Encoder | BulkWriterFactory"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a format; None for those that it does not support."""

    options: tuple[ConfigOption, ...]
    messages: _Messages | None = None
    values: _Values | None = None
    files: _Files | None = None
    writer: _Writer | None = None
    changes: type[ChangesDeserializationSchema] | None = None


def _cdc(
    reader: type[ChangesDeserializationSchema], writer: Callable[..., SerializationSchema], *options: ConfigOption
) -> _Parts:
    known = (IGNORE_ERRORS, *options, TIMESTAMP_FORMAT, IGNORE_NULLS, NULL_KEYS, PLAIN_NUMBERS)
    return _Parts(known, values=lambda kind, options: writer(kind, **_json_style(options)), changes=reader)


_FORMATS: Final[Mapping[str, _Parts]] = {
    "csv": _Parts(
        _CSV,
        _csv_messages,
        _csv_values,
        lambda kind, options: CsvReaderFormat.for_schema(_csv_schema(kind, options)),
        lambda kind, options: CsvEncoder(_csv_schema(kind, options)),
    ),
    "json": _Parts(
        _JSON,
        _json_messages,
        lambda kind, options: JsonRowSerializationSchema(kind, **_json_style(options)),
        lambda kind, _: JsonLinesFormat(kind),
        lambda _, options: JsonLinesEncoder(**_json_style(options)),
    ),
    "avro": _Parts(
        (CODEC, LEGACY_TIMES),
        lambda kind, _: AvroRowDeserializationSchema(
            avro_schema_string=_avro_text(kind), legacy_timestamp_mapping=False
        ),
        lambda kind, _: AvroRowSerializationSchema(avro_schema_string=_avro_text(kind), legacy_timestamp_mapping=False),
        lambda kind, _: AvroFormat(_avro_text(kind), legacy_timestamp_mapping=False),
        lambda kind, options: AvroBulkWriters.for_row_type(codec=options.get(CODEC)),
    ),
    "parquet": _Parts(
        (PARQUET_COMPRESSION, UTC_TIMES),
        files=lambda kind, _: ParquetFormat(type_info=kind),
        writer=lambda _, options: ParquetBulkWriters.for_row_type(compression=options.get(PARQUET_COMPRESSION)),
    ),
    "orc": _Parts((ORC_COMPRESS,), files=lambda kind, _: OrcFormat(type_info=kind), writer=_orc_writer),
    "raw": _Parts(
        (CHARSET,),
        lambda kind, options: RawSchema(kind, options.get(CHARSET)),
        lambda kind, options: RawSchema(kind, options.get(CHARSET)),
        lambda kind, options: TextLineFormat(_raw_lines(kind, options)),
        lambda kind, options: TextLineEncoder(_raw_lines(kind, options)),
    ),
    "debezium-json": _cdc(cdc.DebeziumJsonDeserializationSchema, cdc.DebeziumJsonSerializationSchema, SCHEMA_INCLUDE),
    "canal-json": _cdc(
        cdc.CanalJsonDeserializationSchema, cdc.CanalJsonSerializationSchema, DATABASE_INCLUDE, TABLE_INCLUDE
    ),
    "maxwell-json": _cdc(cdc.MaxwellJsonDeserializationSchema, cdc.MaxwellJsonSerializationSchema),
    "ogg-json": _cdc(cdc.OggJsonDeserializationSchema, cdc.OggJsonSerializationSchema),
}
"""Parts of the built-in formats, by name."""


class BuiltInTableFormat(TableFormat):
    """A built-in format, by name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._parts = _FORMATS[name]
        self.optional_options = self._parts.options
        self.other_options = _OTHER_OPTIONS.get(name, {})
        if self._parts.changes is not None:
            self.changelog_mode = ChangelogMode.ALL

    @property
    def can_project(self) -> bool:
        return self.name in ("parquet", "orc", "csv", "json", "avro")

    def _refuse(self, options: Configuration, others: Mapping[str, Sequence[ConfigOption]], where: str) -> None:
        """Refuse options that would have no effect."""
        for option in others.get(self.name, ()):
            if options.contains_key(option.key):
                raise ConfigurationError(f"{self}: {option.key!r} means nothing for {where}; leave it out")

    def file_reader(self, record_type: TypeInformation, options: Configuration) -> FileFormat:
        self._refuse(options, _OF_MESSAGES, "files")
        files = self._parts.files
        return super().file_reader(record_type, options) if files is None else files(record_type, options)

    def projecting_reader(
        self, record_type: TypeInformation, in_files: TypeInformation, options: Configuration
    ) -> FileFormat:
        if self.name != "csv":
            return self.file_reader(record_type, options)
        self._refuse(options, _OF_MESSAGES, "files")
        return CsvReaderFormat(_csv_schema(in_files, options), columns=record_type.field_names)

    def file_writer(self, record_type: TypeInformation, options: Configuration) -> Encoder | BulkWriterFactory:
        self._refuse(options, _OF_MESSAGES, "files")
        writer = self._parts.writer
        return super().file_writer(record_type, options) if writer is None else writer(record_type, options)

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        known = {} if self._parts.changes is None else self._parts.changes.known_metadata
        return {name: field.kind.logical_type for name, field in known.items()}

    def message_reader(
        self, record_type: TypeInformation, options: Configuration, metadata: Mapping[str, str] = MappingProxyType({})
    ) -> DeserializationSchema:
        self._refuse(options, _OF_FILES, "messages")
        if self._parts.changes is not None:
            given = {name: options.get(each) for name, each in _ARGUMENTS.items() if each in self._parts.options}
            return self._parts.changes(record_type, metadata=metadata, **given)
        messages = self._parts.messages
        return super().message_reader(record_type, options) if messages is None else messages(record_type, options)

    def message_writer(self, record_type: TypeInformation, options: Configuration) -> SerializationSchema:
        self._refuse(options, _OF_FILES, "messages")
        values = self._parts.values
        return super().message_writer(record_type, options) if values is None else values(record_type, options)

    def ignores_errors(self, options: Configuration) -> bool:
        return IGNORE_ERRORS in self._parts.options and options.get(IGNORE_ERRORS)
