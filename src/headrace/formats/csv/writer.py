"""Writing CSV from columns, and messages of CSV as rows and back."""

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import DeserializedBatch
from headrace.common.typeinfo import SequenceTypeInfo, TypeInformation, Types
from headrace.formats.bad_records import ColumnarDeserializationSchema, ColumnarSerializationSchema
from headrace.formats.csv.reader import CsvDecoder, boundary_of
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.file_format import (
    BatchEncoder,
    BulkWriterFactory,
    EncodedFiles,
    bytes_of,
    join_text,
    simple_text,
    whole_number_text,
)
from headrace.formats.lines import BOM

_BIG_INT: Final = Types.BIG_INT()


class CsvEncoder(BatchEncoder):
    """Writes records with fields as lines of comma-separated values; values are quoted where they need it.

    Args:
        schema: the columns and special characters; the fields of the stream's type when left out.
        header: whether every file begins with the names of the columns.
        delimiter: what separates columns, where there is no schema.
        quote: what encloses values, where there is no schema; None for nothing.
        null_value: what stands for a missing value, where there is no schema; an empty value when left out.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.csv import CsvEncoder
        >>> sink = FileSink.for_row_format("/data/out", CsvEncoder(header=True)).build()
    """

    def __init__(
        self,
        schema: CsvSchema | None = None,
        *,
        header: bool = False,
        delimiter: str = ",",
        quote: str | None = '"',
        null_value: str | None = None,
    ) -> None:
        self._schema = schema
        self._header = header or (schema is not None and schema.header)
        self._characters = delimiter, quote, null_value

    def validate(self, input_type: TypeInformation) -> None:
        fields = _schema_of(input_type, *self._characters)
        if self._schema is not None and len(self._schema) != len(fields):
            raise InvalidTypeError(f"the CSV schema has {len(self._schema)} columns, but the records are {input_type}")

    def header(self, input_type: TypeInformation) -> bytes:
        if not self._header:
            return b""
        schema = self._schema_for(input_type)
        names = [_quoted(pa.array([column.name]), schema) for column in schema.columns]
        return bytes_of(_line_texts(names, schema))

    def encode_batch(self, batch: Batch) -> bytes:
        return bytes_of(csv_texts(batch.columns, self._schema_for(batch.type)))

    def _schema_for(self, kind: TypeInformation) -> CsvSchema:
        return _schema_of(kind, *self._characters) if self._schema is None else self._schema


@lru_cache(maxsize=1024)  # it is called for each batch
def _schema_of(kind: TypeInformation, delimiter: str, quote: str | None, null_value: str | None) -> CsvSchema:
    return CsvSchema.of(kind, delimiter=delimiter, quote=quote, null_value=null_value)


def csv_texts(batch: pa.RecordBatch, schema: CsvSchema) -> pa.Array:
    """The records of columns as strings, each a line with its end."""
    texts = []
    for array, column in zip(batch.columns, schema.columns, strict=True):
        if isinstance(column.kind, SequenceTypeInfo):
            text = _list_text(array, column.kind, schema.separator_of(column))
        else:
            text = _text(array, column.kind)
        texts.append(_quoted(text, schema))
    return _line_texts(texts, schema)


def _list_text(column: pa.Array, kind: SequenceTypeInfo, separator: str) -> pa.Array:
    offsets = column.offsets.to_numpy()
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    texts = pa.ListArray.from_arrays(
        pa.array(offsets - offsets[0]), _text(values, kind.element_type), mask=column.is_null()
    )
    if not texts.values.null_count:
        return pc.binary_join(texts, separator)
    joined = [None if values is None else separator.join(v or "" for v in values) for values in texts.to_pylist()]
    return pa.array(joined, pa.string())


def _text(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """The values of a column of simple values as strings; bytes are Base64, as in Flink."""
    if kind == _BIG_INT:
        return whole_number_text(column)
    if not pa.types.is_binary(column.type):
        return simple_text(column)
    texts = [None if value is None else base64.b64encode(value).decode("ascii") for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _quoted(column: pa.Array, schema: CsvSchema) -> pa.Array:
    """Strings with quotes around those that hold a special character, or would be read as something else."""
    quote = schema.quote
    if quote is not None:
        special = "[\ufeff\r\n" + "".join(map(re.escape, (schema.delimiter, quote, schema.escape or ""))) + "]"
        needs = pc.match_substring_regex(column, f"^#|{special}" if schema.comments else special)
        if schema.null_value is not None:
            needs = pc.or_(needs, pc.equal(column, schema.null_value))
        if pc.any(needs).as_py():
            column = pc.if_else(needs, join_text([quote, _escaped(column, quote, schema.escape), quote]), column)
    column = column.fill_null(schema.null_value or "") if column.null_count else column
    if quote is not None and len(schema.columns) == 1 and schema.null_value != "":
        column = pc.replace_with_mask(column, pc.equal(column, ""), pa.scalar(quote * 2))  # an empty line is no record
    return column


def _escaped(column: pa.Array, quote: str, escape: str | None) -> pa.Array:
    """Strings in which quotes are doubled, as Flink does, and escape characters too, which would be lost otherwise."""
    if escape is not None:
        column = pc.replace_substring(column, escape, escape * 2)
    return pc.replace_substring(column, quote, quote * 2)


def _line_texts(columns: Sequence[pa.Array], schema: CsvSchema) -> pa.Array:
    parts: list[pa.Array | str] = []
    for column in columns:
        parts += [column, schema.delimiter]
    return join_text([*parts[:-1], schema.line_separator])


class CsvBulkWriters:
    """Makes writers of whole CSV files, under PyFlink's name.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.csv import CsvBulkWriters, CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("card").add_number_column("amount").build()
        >>> sink = FileSink.for_bulk_format("/data/out", CsvBulkWriters.for_schema(schema)).build()
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Writers of files with the columns of ``schema``."""
        return EncodedFiles(CsvEncoder(schema))


_ARRAY_SEPARATOR = ";"


class _CsvRowBuilder:
    """The settings that both directions have."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info
        self._schema = CsvSchema.of(type_info, array_separator=_ARRAY_SEPARATOR)

    def _set(self, **options: Any) -> Self:
        self._schema = replace(self._schema, **options)
        return self

    def set_field_delimiter(self, delimiter: str) -> Self:
        """Set the separator of values; a comma unless set."""
        return self._set(delimiter=delimiter)

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set the separator of the elements of an array; a semicolon unless set."""
        return self._set(array_separator=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Set the character that encloses values with special characters; a double quote unless set."""
        return self._set(quote=c)

    def set_escape_character(self, c: str) -> Self:
        """Set the character that escapes special ones; none unless set."""
        return self._set(escape=c)

    def set_null_literal(self, null_literal: str) -> Self:
        """Set the text of a missing value; unless set an empty value is missing, but for strings."""
        return self._set(null_value=null_literal)


class CsvRowDeserializationSchemaBuilder(_CsvRowBuilder):
    """Puts a :class:`CsvRowDeserializationSchema` together.

    Args:
        type_info: the type of the records.

    Raises:
        InvalidTypeError: when a field has no form in CSV.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info)
        self._ignore_parse_errors = False

    def set_allow_comments(self) -> Self:
        """Leave out messages that begin with ``#``."""
        return self._set(comments=True)

    def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
        """Tell whether messages that cannot be read are left out and counted."""
        self._ignore_parse_errors = ignore_parse_errors
        return self

    def build(self) -> "CsvRowDeserializationSchema":
        """The schema."""
        return CsvRowDeserializationSchema(self._type, self._schema, ignore_parse_errors=self._ignore_parse_errors)


class CsvRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads a message of comma-separated values as a record.

    A line end behind the values does not matter; quoted values may hold newlines.

    Args:
        type_info: the type of the records.
        schema: the columns and special characters.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import CsvRowDeserializationSchema, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = CsvRowDeserializationSchema.Builder(user).set_field_delimiter("|").build()
        >>> schema.deserialize(b"ann|31")
        Row(name='ann', age=31)
    """

    Builder = CsvRowDeserializationSchemaBuilder

    def __init__(self, type_info: TypeInformation, schema: CsvSchema, *, ignore_parse_errors: bool = False) -> None:
        super().__init__(type_info, ignore_parse_errors=ignore_parse_errors)
        self._schema = replace(schema, comments=False)
        self._comments = schema.comments

    def deserialize(self, message: bytes) -> Any:
        """Read a record of the declared type; nothing for a comment."""
        is_comment = self._comments and message.removeprefix(BOM).startswith(b"#")
        return None if is_comment else super().deserialize(message)

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        if self._comments:
            raw = messages.cast(pa.binary())
            is_comment = pc.or_(pc.starts_with(raw, b"#"), pc.starts_with(raw, BOM + b"#"))
            messages = pc.if_else(is_comment, pa.scalar(None, messages.type), messages)
        return super().deserialize_batch(messages)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return _message_decoder(self._schema).messages(messages)


@lru_cache(maxsize=64)
def _message_decoder(schema: CsvSchema) -> CsvDecoder:
    return CsvDecoder(schema, [column.name for column in schema.columns], boundary_of(schema))


class CsvRowSerializationSchemaBuilder(_CsvRowBuilder):
    """Puts a :class:`CsvRowSerializationSchema` together.

    Args:
        type_info: the type of the records.

    Raises:
        InvalidTypeError: when a field has no form in CSV.
    """

    def set_line_delimiter(self, delimiter: str) -> Self:
        """Set the end of a message; it may be empty."""
        return self._set(line_separator=delimiter)

    def disable_quote_character(self) -> Self:
        """Write values as they are, whatever they hold."""
        return self._set(quote=None)

    def build(self) -> "CsvRowSerializationSchema":
        """The schema."""
        return CsvRowSerializationSchema(self._type, self._schema)


class CsvRowSerializationSchema(ColumnarSerializationSchema):
    r"""Writes a record as a line of comma-separated values; a line feed ends it by default, as in Flink.

    Args:
        type_info: the type of the records.
        schema: the columns and special characters.

    Examples:
        >>> from headrace.common import CsvRowSerializationSchema, Row, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> CsvRowSerializationSchema.Builder(user).build().serialize(Row(name="ann", age=31))
        b'ann,31\n'
    """

    Builder = CsvRowSerializationSchemaBuilder

    def __init__(self, type_info: TypeInformation, schema: CsvSchema) -> None:
        super().__init__(type_info)
        self._schema = schema

    def serialize_batch(self, batch: Batch) -> pa.Array:
        return csv_texts(self.columns_of(batch), self._schema).cast(pa.binary())
