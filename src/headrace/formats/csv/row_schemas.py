"""Messages of comma-separated values as rows and back, under PyFlink's names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.serialization import DeserializedBatch, SerializationSchema
from headrace.formats.columnar_messages import ColumnarDeserializationSchema, columns_as, refuse_other_fields
from headrace.formats.csv.reader import CsvDecoder, boundary_of
from headrace.formats.csv.schema import CsvSchema
from headrace.formats.csv.writer import csv_texts
from headrace.formats.lines.format import BOM

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

_ARRAY_SEPARATOR = ";"


class _Builder:
    """The settings that both directions have."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info
        self._schema = CsvSchema.of(type_info, array_separator=_ARRAY_SEPARATOR)

    def _set(self, **options: Any) -> Self:
        self._schema = replace(self._schema, **options)
        return self

    def set_field_delimiter(self, delimiter: str) -> Self:
        """What separates values; a comma unless told otherwise."""
        return self._set(delimiter=delimiter)

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """What separates the elements of an array; a semicolon unless told otherwise."""
        return self._set(array_separator=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """What encloses values that hold special characters; a double quote unless told otherwise."""
        return self._set(quote=c)

    def set_escape_character(self, c: str) -> Self:
        """What comes before a special character; there is none unless told otherwise."""
        return self._set(escape=c)

    def set_null_literal(self, null_literal: str) -> Self:
        """What stands for a missing value; an empty value, but for strings, unless told otherwise."""
        return self._set(null_value=null_literal)


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

    def __init__(self, type_info: TypeInformation, schema: CsvSchema, *, ignore_parse_errors: bool = False) -> None:
        self._type = type_info
        self._schema = replace(schema, comments=False)
        self._comments = schema.comments
        self.ignore_parse_errors = ignore_parse_errors

    class Builder(_Builder):
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
            """Whether messages that cannot be read are left out and counted."""
            self._ignore_parse_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            return CsvRowDeserializationSchema(self._type, self._schema, ignore_parse_errors=self._ignore_parse_errors)

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    def deserialize(self, message: bytes) -> Any:
        """As declared; nothing for a comment."""
        is_comment = self._comments and message.removeprefix(BOM).startswith(b"#")
        return None if is_comment else super().deserialize(message)

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        if self._comments:
            raw = messages.cast(pa.binary())
            is_comment = pc.or_(pc.starts_with(raw, b"#"), pc.starts_with(raw, BOM + b"#"))
            messages = pc.if_else(is_comment, pa.scalar(None, messages.type), messages)
        return super().deserialize_batch(messages)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        names = [column.name for column in self._schema.columns]
        return CsvDecoder(self._schema, names, boundary_of(self._schema)).messages(messages)


class CsvRowSerializationSchema(SerializationSchema):
    r"""Writes a record as a line of comma-separated values; a line feed ends it unless told otherwise, as in Flink.

    Args:
        type_info: the type of the records.
        schema: the columns and special characters.

    Examples:
        >>> from headrace.common import CsvRowSerializationSchema, Row, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> CsvRowSerializationSchema.Builder(user).build().serialize(Row(name="ann", age=31))
        b'ann,31\n'
    """

    def __init__(self, type_info: TypeInformation, schema: CsvSchema) -> None:
        self._type = type_info
        self._schema = schema

    class Builder(_Builder):
        """Puts a :class:`CsvRowSerializationSchema` together.

        Args:
            type_info: the type of the records.

        Raises:
            InvalidTypeError: when a field has no form in CSV.
        """

        def set_line_delimiter(self, delimiter: str) -> Self:
            """What ends a message; it may be empty."""
            return self._set(line_separator=delimiter)

        def disable_quote_character(self) -> Self:
            """Write values as they are, whatever they hold."""
            return self._set(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            return CsvRowSerializationSchema(self._type, self._schema)

    def serialize(self, element: Any) -> bytes:
        """The line of one record."""
        batch = Batch.of_rows(self._type, [element], [NO_TIMESTAMP], [MIN_WATERMARK])
        written: bytes = self.serialize_batch(batch)[0].as_py()
        return written

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type.arrow_type is None:
            batch = Batch.of_rows(self._type, batch.rows, batch.timestamps, batch.watermarks)
        return csv_texts(columns_as(batch, self._type), self._schema).cast(pa.binary())

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._type, input_type)
