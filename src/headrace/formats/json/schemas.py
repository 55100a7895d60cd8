"""Messages of JSON as named rows and back, under PyFlink's names."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError
from headrace.common.serialization import DeserializationSchema, SerializationSchema
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.values import handler_of
from headrace.formats.json.values import by_position, json_text

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object as a record of a type.

    Args:
        type_info: the type of the records.
        fail_on_missing_field: whether a missing field is an error; else it is ``None``.
        ignore_parse_errors: whether what cannot be read is left out; else it is an error.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowDeserializationSchema.builder().type_info(user).build()
        >>> schema.deserialize(b'{"name": "ann", "age": 31}')
        Row(name='ann', age=31)
    """

    def __init__(
        self, type_info: TypeInformation, *, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        self._type = type_info
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowDeserializationSchemaBuilder()

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    def deserialize(self, message: bytes) -> Any:
        """The record of one message.

        Raises:
            BadRecordError: when the message cannot be read, unless such messages are left out.
        """
        try:
            return self._read(message)
        except ValueError as error:
            if self._ignore_parse_errors:
                return None
            raise BadRecordError(f"the message {message[:200]!r} cannot be read as {self._type}: {error}") from error

    def _read(self, message: bytes) -> Any:
        document = json.loads(message, parse_float=Decimal)
        if self._fail_on_missing_field and isinstance(document, dict):
            missing = [name for name in self._type.field_names if name not in document]
            if missing:
                raise ValueError(f"the field {missing[0]!r} is missing")
        columns = layout_of(by_position(self._type)).rows_to_columns([handler_of(self._type).from_json(document)])
        return layout_of(self._type).columns_to_rows(columns)[0]


@hides_engine_of_methods
class JsonRowDeserializationSchemaBuilder:
    """Puts a :class:`JsonRowDeserializationSchema` together."""

    def __init__(self) -> None:
        self._type: TypeInformation | None = None
        self._fail_on_missing_field = False
        self._ignore_parse_errors = False

    def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchemaBuilder:
        """The type of the records."""
        self._type = type_info
        return self

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


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a record of a type as a JSON object.

    Args:
        type_info: the type of the records.

    Examples:
        >>> from headrace.common import JsonRowSerializationSchema, Row, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowSerializationSchema.builder().with_type_info(user).build()
        >>> schema.serialize(Row(name="ann", age=31))
        b'{"name":"ann","age":31}'
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowSerializationSchemaBuilder()

    def serialize(self, element: Any) -> bytes:
        """The JSON object of one record."""
        return json_text(element, self._type).encode()


@hides_engine_of_methods
class JsonRowSerializationSchemaBuilder:
    """Puts a :class:`JsonRowSerializationSchema` together."""

    def __init__(self) -> None:
        self._type: TypeInformation | None = None

    def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchemaBuilder:
        """The type of the records."""
        self._type = type_info
        return self

    def build(self) -> JsonRowSerializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when no type was given.
        """
        if self._type is None:
            raise InvalidProgramError("JsonRowSerializationSchema needs a type: call with_type_info(...)")
        return JsonRowSerializationSchema(self._type)
