"""Messages of JSON as named rows and back, under PyFlink's names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidProgramError
from headrace.common.serialization import SerializationSchema
from headrace.common.typeinfo import Types
from headrace.formats.columnar_messages import ColumnarDeserializationSchema, columns_as, refuse_other_fields
from headrace.formats.json.decoders import decoder_of, refuse_missing_fields
from headrace.formats.json.json_schema import type_of_json_schema
from headrace.formats.json.writer import USUAL, JsonStyle, json_text, json_texts

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class JsonRowDeserializationSchemaBuilder:
    """Puts a :class:`JsonRowDeserializationSchema` together."""

    def __init__(self) -> None:
        self._type: TypeInformation | type | None = None
        self._fail_on_missing_field = False
        self._ignore_parse_errors = False

    def type_info(self, type_info: TypeInformation | type) -> JsonRowDeserializationSchemaBuilder:
        """The type of the records."""
        self._type = type_info
        return self

    def json_schema(self, json_schema: str) -> JsonRowDeserializationSchemaBuilder:
        """The type of the records, as a JSON Schema describes it: numbers are BIG_DEC.

        Raises:
            InvalidTypeError: when it describes no type of rows.
        """
        return self.type_info(type_of_json_schema(json_schema))

    def fail_on_missing_field(self) -> JsonRowDeserializationSchemaBuilder:
        """Take a missing field for an error."""
        self._fail_on_missing_field = True
        return self

    def ignore_parse_errors(self) -> JsonRowDeserializationSchemaBuilder:
        """Leave out what cannot be read."""
        self._ignore_parse_errors = True
        return self

    def build(self) -> JsonRowDeserializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when no type was given, or both ways to treat errors were asked for.
        """
        if self._type is None:
            raise InvalidProgramError("JsonRowDeserializationSchema needs a type: call type_info(...)")
        if self._fail_on_missing_field and self._ignore_parse_errors:
            raise InvalidProgramError("choose one of fail_on_missing_field and ignore_parse_errors")
        return JsonRowDeserializationSchema(
            self._type,
            fail_on_missing_field=self._fail_on_missing_field,
            ignore_parse_errors=self._ignore_parse_errors,
        )


class JsonRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads a JSON object as a record of a type.

    Args:
        type_info: the type of the records; a dataclass says it, too.
        fail_on_missing_field: whether a missing field is an error; else it is ``None``.
        ignore_parse_errors: whether what cannot be read is left out; else it is an error.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowDeserializationSchema.builder().type_info(user).build()
        >>> schema.deserialize(b'{"name": "ann", "age": 31}')
        Row(name='ann', age=31)
    """

    Builder = JsonRowDeserializationSchemaBuilder

    def __init__(
        self,
        type_info: TypeInformation | type,
        *,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._type = Types.of(type_info)
        self._fail_on_missing_field = fail_on_missing_field
        self.ignore_parse_errors = ignore_parse_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowDeserializationSchemaBuilder()

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        columns = decoder_of(self._type).messages(messages)
        if self._fail_on_missing_field:
            refuse_missing_fields(messages, columns, self._type)
        return columns


class JsonRowSerializationSchemaBuilder:
    """Puts a :class:`JsonRowSerializationSchema` together."""

    def __init__(self) -> None:
        self._type: TypeInformation | type | None = None
        self._style = USUAL

    def with_type_info(self, type_info: TypeInformation | type) -> JsonRowSerializationSchemaBuilder:
        """The type of the records."""
        self._type = type_info
        return self

    def with_timestamp_format(self, timestamp_format: str) -> JsonRowSerializationSchemaBuilder:
        """How moments are written: ``ISO-8601``, which is the default, or ``SQL``."""
        self._style = replace(self._style, timestamp_format=timestamp_format)
        return self

    def ignore_null_fields(self) -> JsonRowSerializationSchemaBuilder:
        """Leave fields without a value out."""
        self._style = replace(self._style, ignore_null_fields=True)
        return self

    def build(self) -> JsonRowSerializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when no type was given.
        """
        if self._type is None:
            raise InvalidProgramError("JsonRowSerializationSchema needs a type: call with_type_info(...)")
        return JsonRowSerializationSchema(
            self._type,
            timestamp_format=self._style.timestamp_format,
            ignore_null_fields=self._style.ignore_null_fields,
        )


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a record of a type as a JSON object.

    Args:
        type_info: the type of the records; a dataclass says it, too.
        timestamp_format: how moments are written: ``ISO-8601``, or ``SQL``, which has a blank in place of the ``T``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.

    Examples:
        >>> from headrace.common import JsonRowSerializationSchema, Row, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowSerializationSchema.builder().with_type_info(user).build()
        >>> schema.serialize(Row(name="ann", age=31))
        b'{"name":"ann","age":31}'
    """

    Builder = JsonRowSerializationSchemaBuilder

    def __init__(
        self,
        type_info: TypeInformation | type,
        *,
        timestamp_format: str = "ISO-8601",
        ignore_null_fields: bool = False,
    ) -> None:
        self._type = Types.of(type_info)
        self._style = JsonStyle(timestamp_format, ignore_null_fields)

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowSerializationSchemaBuilder()

    def serialize(self, element: Any) -> bytes:
        """The JSON object of one record."""
        return json_text(element, self._type, self._style).encode()

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type.arrow_type is None:
            return super().serialize_batch(batch)
        return json_texts(columns_as(batch, self._type), self._type, style=self._style).cast(pa.binary())

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._type, input_type)
