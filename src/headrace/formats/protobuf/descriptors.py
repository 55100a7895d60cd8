"""What a message's description says of its columns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.protobuf.columns import (
    Column,
    EnumColumn,
    Field,
    ListColumn,
    MapColumn,
    MessageColumn,
    ScalarColumn,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from headrace.formats.protobuf.schema import ProtobufSchema

_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING = range(1, 10)
_BYTES, _UINT32, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = 12, 13, 15, 16, 17, 18
_GROUP: Final = 10

_SCALARS: Final[dict[int, tuple[TypeInformation, Any]]] = {
    _DOUBLE: (Types.DOUBLE(), 0.0),
    _FLOAT: (Types.FLOAT(), 0.0),
    **{kind: (Types.INT(), 0) for kind in (_INT32, _SFIXED32, _SINT32)},
    **{kind: (Types.LONG(), 0) for kind in (_INT64, _SFIXED64, _SINT64, _UINT32, _FIXED32)},
    **{kind: (Types.BIG_INT(), 0) for kind in (_UINT64, _FIXED64)},
    _BOOL: (Types.BOOLEAN(), False),
    _STRING: (Types.STRING(), ""),
    _BYTES: (Types.BYTES(), b""),
}
"""By the number of a field's type in a descriptor its type and its zero."""


@lru_cache(maxsize=256)
def message_column(
    schema: ProtobufSchema, *, read_default_values: bool = False, write_null_string_literal: str = ""
) -> MessageColumn:
    """The columns of messages of a schema; arguments as for the schemas of rows.

    Raises:
        InvalidProgramError: when they cannot be columns.
    """
    return _Builder(read_default_values, write_null_string_literal).message(schema.descriptor(), ())


class _Builder:
    """Makes columns of descriptors.

    Args:
        read_defaults: see :class:`~headrace.formats.protobuf.row_schemas.ProtobufRowDeserializationSchema`.
        null_literal: what is written for null strings in lists and maps.
    """

    def __init__(self, read_defaults: bool, null_literal: str) -> None:
        self._read_defaults = read_defaults
        self._null_literal = null_literal

    def message(self, descriptor: Descriptor, inside: tuple[str, ...]) -> MessageColumn:
        """The columns of a message that is inside of others."""
        name = descriptor.full_name
        if name in inside:
            raise InvalidProgramError(f"the message {name} contains itself, so its values have no columns")
        if not descriptor.fields:
            raise InvalidProgramError(f"the message {name} has no fields, so its values have no columns")
        fields = [self._field(field, (*inside, name)) for field in descriptor.fields]
        return MessageColumn(name, fields, read_defaults=self._read_defaults)

    def _field(self, field: FieldDescriptor, inside: tuple[str, ...]) -> Field:
        column = self._column(field, inside)
        oneof = field.containing_oneof
        return Field(
            field.name,
            field.number,
            column,
            _default(field),
            has_presence=bool(field.has_presence) or field.is_repeated,
            is_required=field.is_required,
            oneof=None if oneof is None else oneof.name,
        )

    def _column(self, field: FieldDescriptor, inside: tuple[str, ...]) -> Column:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            key, value = (self._value(of, inside) for of in message.fields)
            return MapColumn(key, value, read_defaults=self._read_defaults, null_literal=self._null_literal)
        value = self._value(field, inside)
        if not field.is_repeated:
            return value
        return ListColumn(value, read_defaults=self._read_defaults, null_literal=self._null_literal)

    def _value(self, field: FieldDescriptor, inside: tuple[str, ...]) -> Column:
        if field.type == _GROUP:
            raise InvalidProgramError(
                f"{field.full_name} is a group, which Protobuf itself has given up: declare a message"
            )
        if field.message_type is not None:
            return self.message(field.message_type, inside)
        if field.enum_type is not None:
            enum = field.enum_type
            numbers = {value.name: value.number for value in enum.values}
            return EnumColumn(enum.full_name, numbers, is_closed=enum.is_closed, zero=enum.values[0].number)
        type_info, zero = _SCALARS[field.type]
        return ScalarColumn(type_info, zero)


def _default(field: FieldDescriptor) -> Any:
    """The default as it is in columns of records; None for those that consist of others."""
    if field.is_repeated or field.message_type is not None:
        return None
    if field.enum_type is not None:
        return field.enum_type.values_by_number[field.default_value].name
    return str(field.default_value) if field.type in (_UINT64, _FIXED64) else field.default_value
