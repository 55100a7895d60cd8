"""The formats that come with headrace, by name."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.config_options import ConfigOption, boolean, choice
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import Encoder
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.avro.files import CODECS, AvroFormat
from headrace.formats.avro.writer import AvroBulkWriters
from headrace.formats.csv.reader import CsvFormat
from headrace.formats.csv.writer import CsvEncoder
from headrace.formats.file_format import BulkWriterFactory, FileFormat, Format
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.writer import TIMESTAMP_FORMATS, JsonLinesEncoder
from headrace.formats.orc import OrcBulkWriters, OrcFormat
from headrace.formats.parquet import ParquetBulkWriters, ParquetFormat
from headrace.formats.text import TextLineEncoder, TextLineFormat

CHARSET: Final = ConfigOption("charset", str, "UTF-8", "How characters are encoded.")

DELIMITER: Final = ConfigOption("field-delimiter", str, ",", "What separates columns.")
QUOTE: Final = ConfigOption("quote-character", str, '"', "What encloses values.")
NO_QUOTE: Final = ConfigOption("disable-quote-character", boolean, False, "Whether values are never quoted.")
NULL_LITERAL: Final = ConfigOption[str | None]("null-literal", str, None, "What stands for a missing value.")
HEADER: Final = ConfigOption("header", boolean, False, "Whether the first line of every file names the columns.")

AVRO_CODEC: Final = ConfigOption("codec", choice(*CODECS), "snappy", "How blocks are compressed.")

TIMESTAMP_FORMAT: Final = ConfigOption(
    "timestamp-format.standard", choice(*TIMESTAMP_FORMATS), "ISO-8601", "How moments are written."
)
IGNORE_NULLS: Final = ConfigOption(
    "encode.ignore-null-fields", boolean, False, "Whether fields without a value are left out."
)

PARQUET_COMPRESSION: Final = ConfigOption(
    "compression", choice("snappy", "zstd", "gzip", "lz4", "none"), "snappy", "How files are compressed."
)

ORC_COMPRESS: Final = ConfigOption(
    "compress", choice("none", "zlib", "snappy", "lz4", "zstd"), "zlib", "How files are compressed."
)


class BuiltInFormat(Format):
    """A format of the table, by its name there."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.optional_options, self._decoding, self._encoding = _FORMATS[name]

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        return self._decoding(record_type, options)

    def create_encoding_format(self, options: Configuration) -> Encoder | BulkWriterFactory:
        return self._encoding(options)


def _read_csv(record_type: TypeInformation | None, options: Configuration) -> FileFormat:
    if record_type is None:
        raise InvalidTypeError(
            "format 'csv' needs the type of the records: give one with names, such as Types.ROW_NAMED"
        )
    return CsvFormat(record_type, **_csv(options))


def _csv(options: Configuration) -> dict[str, Any]:
    return {
        "header": options.get(HEADER),
        "delimiter": options.get(DELIMITER),
        "quote": None if options.get(NO_QUOTE) else options.get(QUOTE),
        "null_value": options.get(NULL_LITERAL),
    }


def _read_text(record_type: TypeInformation | None, options: Configuration) -> FileFormat:
    if record_type not in (None, Types.STRING()):
        raise InvalidTypeError(f"the records of format 'text' are Types.STRING(), not {record_type}")
    return TextLineFormat(options.get(CHARSET))


def _write_json(options: Configuration) -> Encoder:
    return JsonLinesEncoder(
        timestamp_format=options.get(TIMESTAMP_FORMAT), ignore_null_fields=options.get(IGNORE_NULLS)
    )


def _write_orc(options: Configuration) -> BulkWriterFactory:
    return OrcBulkWriters.for_row_type(writer_properties={"orc.compress": options.get(ORC_COMPRESS)})


_Options = tuple[ConfigOption, ...]
_Decoding = Callable[[TypeInformation | None, Configuration], FileFormat]
_Encoding = Callable[[Configuration], Encoder | BulkWriterFactory]

_FORMATS: Final[Mapping[str, tuple[_Options, _Decoding, _Encoding]]] = {
    "avro": (
        (AVRO_CODEC,),
        lambda record_type, _: AvroFormat(type_info=record_type),
        lambda options: AvroBulkWriters.for_row_type(codec=options.get(AVRO_CODEC)),
    ),
    "csv": (
        (DELIMITER, QUOTE, NO_QUOTE, NULL_LITERAL, HEADER),
        _read_csv,
        lambda options: CsvEncoder(**_csv(options)),
    ),
    "json": ((TIMESTAMP_FORMAT, IGNORE_NULLS), lambda record_type, _: JsonLinesFormat(record_type), _write_json),
    "orc": ((ORC_COMPRESS,), lambda record_type, _: OrcFormat(type_info=record_type), _write_orc),
    "parquet": (
        (PARQUET_COMPRESSION,),
        lambda record_type, _: ParquetFormat(type_info=record_type),
        lambda options: ParquetBulkWriters.for_row_type(compression=options.get(PARQUET_COMPRESSION)),
    ),
    "text": ((CHARSET,), _read_text, lambda options: TextLineEncoder(options.get(CHARSET))),
}
"""The options, the reader and the writer of each format, by its name."""
