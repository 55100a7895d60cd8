"""The formats that come with headrace, by name."""

from typing import Final

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


class Avro(Format):
    """Avro files."""

    optional_options = (AVRO_CODEC,)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        return AvroFormat(type_info=record_type)

    def create_encoding_format(self, options: Configuration) -> BulkWriterFactory:
        return AvroBulkWriters.for_row_type(codec=options.get(AVRO_CODEC))


class Csv(Format):
    """Comma-separated values."""

    optional_options = (DELIMITER, QUOTE, NO_QUOTE, NULL_LITERAL, HEADER)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        if record_type is None:
            raise InvalidTypeError(
                f"{self} needs the type of the records: give one with names, such as Types.ROW_NAMED"
            )
        return CsvFormat(
            record_type,
            header=options.get(HEADER),
            delimiter=options.get(DELIMITER),
            quote=_quote(options),
            null_value=options.get(NULL_LITERAL),
        )

    def create_encoding_format(self, options: Configuration) -> Encoder:
        return CsvEncoder(
            header=options.get(HEADER),
            delimiter=options.get(DELIMITER),
            quote=_quote(options),
            null_value=options.get(NULL_LITERAL),
        )


class Json(Format):
    """One JSON document a line."""

    optional_options = (TIMESTAMP_FORMAT, IGNORE_NULLS)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        return JsonLinesFormat(record_type)

    def create_encoding_format(self, options: Configuration) -> Encoder:
        return JsonLinesEncoder(
            timestamp_format=options.get(TIMESTAMP_FORMAT), ignore_null_fields=options.get(IGNORE_NULLS)
        )


class Parquet(Format):
    """Parquet files."""

    optional_options = (PARQUET_COMPRESSION,)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        return ParquetFormat(type_info=record_type)

    def create_encoding_format(self, options: Configuration) -> BulkWriterFactory:
        return ParquetBulkWriters.for_row_type(compression=options.get(PARQUET_COMPRESSION))


class Orc(Format):
    """ORC files."""

    optional_options = (ORC_COMPRESS,)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        return OrcFormat(type_info=record_type)

    def create_encoding_format(self, options: Configuration) -> BulkWriterFactory:
        return OrcBulkWriters.for_row_type(writer_properties={"orc.compress": options.get(ORC_COMPRESS)})


class Text(Format):
    """Lines of text."""

    optional_options = (CHARSET,)

    def create_decoding_format(self, record_type: TypeInformation | None, options: Configuration) -> FileFormat:
        if record_type not in (None, Types.STRING()):
            raise InvalidTypeError(f"the records of {self} are Types.STRING(), not {record_type}")
        return TextLineFormat(options.get(CHARSET))

    def create_encoding_format(self, options: Configuration) -> Encoder:
        return TextLineEncoder(options.get(CHARSET))


def _quote(options: Configuration) -> str | None:
    return None if options.get(NO_QUOTE) else options.get(QUOTE)
