"""Stored columns as columns of records, and back: names of enums, maps, defaults, what is missing.

Stored columns are those of :mod:`headrace.formats.protobuf.wire`: enums are their numbers, maps lists of entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import list_lengths, list_offsets, valid_mask
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.bad_records import inside_field
from headrace.formats.protobuf.wire import ProtobufSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


_T = TypeVar("_T")


class FieldColumn(ABC):
    """Values of one type.

    Attributes:
        type_info: the type of the values in records.
        zero: the stored value that stands for one that is not there.
    """

    type_info: TypeInformation
    zero: Any

    @abstractmethod
    def read(self, stored: pa.Array) -> pa.Array:
        """The values in records, under the storage type of their type; null ones stay null.

        Raises:
            ValueError: when there is no such value.
        """

    @abstractmethod
    def write(self, values: pa.Array, stored: pa.DataType, where: str) -> pa.Array:
        """The stored values; null ones stay null.

        Args:
            values: under the storage type of the column's type.
            stored: the type of the stored values.
            where: the field, for messages.

        Raises:
            InvalidTypeError: when a value has no such form.
        """

    def is_plain(self, stored: pa.Array) -> bool:
        """Tell whether stored values say what they mean by themselves: no part is missing, or there twice."""
        return True


class ScalarColumn(FieldColumn):
    """Numbers, strings, bytes."""

    def __init__(self, type_info: TypeInformation, zero: object) -> None:
        self.type_info = type_info
        self.zero = zero

    def read(self, stored: pa.Array) -> pa.Array:
        return stored.cast(self.type_info.storage_type)

    def write(self, values: pa.Array, stored: pa.DataType, where: str) -> pa.Array:
        try:
            return values.cast(stored)
        except pa.ArrowInvalid as error:
            raise InvalidTypeError(f"{where}: {error}, and the field of the message is {stored}") from None


class EnumColumn(FieldColumn):
    """Names of an enum's values.

    Args:
        name: the enum.
        numbers: by each name its number; of several names of a number the first one is read.
        is_closed: whether other numbers are fields that are not known, as in proto2.
        zero: the number of its default.
    """

    def __init__(self, name: str, numbers: dict[str, int], *, is_closed: bool, zero: int) -> None:
        self.type_info = Types.STRING()
        self.zero = zero
        self._name = name
        self._is_closed = is_closed
        self._names = pa.array(list(numbers), pa.string())
        self._numbers = pa.array(list(numbers.values()), pa.int32())

    def read(self, stored: pa.Array) -> pa.Array:
        places = pc.index_in(stored, self._numbers)
        if places.null_count > stored.null_count:
            unknown = stored.filter(pc.and_(places.is_null(), stored.is_valid()))[0].as_py()
            raise ValueError(f"{unknown} is not a number of {self._name}")
        return self._names.take(places)

    def write(self, values: pa.Array, stored: pa.DataType, where: str) -> pa.Array:
        places = pc.index_in(values, self._names)
        if places.null_count > values.null_count:
            unknown = values.filter(pc.and_(places.is_null(), values.is_valid()))[0].as_py()
            raise InvalidTypeError(f"{where}: {self._name} has no value {unknown!r}")
        return self._numbers.take(places)

    def is_plain(self, stored: pa.Array) -> bool:
        return not self._is_closed or pc.index_in(stored, self._numbers).null_count == stored.null_count


class RepeatedColumn(FieldColumn):
    """Lists; maps, which are stored as lists of keys and values.

    One without elements is ``None`` unless defaults are read, as in Flink.

    Args:
        elements: the column of the elements of a list; those of the keys and the values of a map.
        read_defaults: whether defaults are read.
        null_literal: what is written for null strings.
    """

    zero = None

    def __init__(self, *elements: FieldColumn, read_defaults: bool, null_literal: str) -> None:
        types = [element.type_info for element in elements]
        self._is_map = len(elements) > 1
        self.type_info = Types.MAP(*types) if self._is_map else Types.OBJECT_ARRAY(*types)
        self._elements = elements
        self._read_defaults = read_defaults
        self._null_literal = null_literal

    def read(self, stored: pa.Array) -> pa.Array:
        offsets, missing = _bounds(stored, self._read_defaults)
        arrays = [column.read(part) for column, part in zip(self._elements, self._parts(stored), strict=True)]
        kind = pa.MapArray if self._is_map else pa.ListArray
        return kind.from_arrays(offsets, *arrays, type=self.type_info.storage_type, mask=missing)

    def write(self, values: pa.Array, stored: pa.DataType, where: str) -> pa.Array:
        entry = stored.value_type
        if self._is_map:
            kind = values.type
            values = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        offsets, _ = _bounds(values, True)
        kinds = [field.type for field in entry] if self._is_map else [entry]
        parts = [
            without_nulls(column, column.write(part, kind, f"{where}[]"), self._null_literal)
            for column, part, kind in zip(self._elements, self._parts(values), kinds, strict=True)
        ]
        elements = pa.StructArray.from_arrays(parts, fields=list(entry)) if self._is_map else parts[0]
        return pa.ListArray.from_arrays(offsets, elements, type=stored)

    def is_plain(self, stored: pa.Array) -> bool:
        parts = self._parts(stored)
        if self._is_map and (any(part.null_count for part in parts) or _repeats(stored, parts[0])):
            return False
        return all(column.is_plain(part) for column, part in zip(self._elements, parts, strict=True))

    def _parts(self, lists: pa.Array) -> list[pa.Array]:
        elements = lists.flatten()
        return list(elements.flatten()) if self._is_map else [elements]


def _repeats(maps: pa.Array, keys: pa.Array) -> bool:
    """Return whether a map has a key twice."""
    rows = pa.array(np.repeat(np.arange(len(maps)), list_lengths(maps)))
    different = pa.table({"row": rows, "key": keys}).group_by(["row", "key"]).aggregate([]).num_rows
    return bool(different != len(keys))


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message.

    Attributes:
        name: its name.
        number: its number.
        column: its values.
        default: the value in records that stands for a missing one where defaults are read; None: no other.
        has_presence: whether a message without the field differs from one with its default.
        is_required: whether every message has to have it.
        oneof: of several fields with the same name here a message has one at most.
    """

    name: str
    number: int
    column: FieldColumn
    default: Any = None
    has_presence: bool = True
    is_required: bool = False
    oneof: str | None = None


class MessageColumn(FieldColumn):
    """Messages as rows. Fields of rows are in the order of the description, stored ones in that of their numbers.

    Args:
        name: the message.
        fields: its fields.
        read_defaults: whether what is missing is read as its default; else it is ``None``.
    """

    zero = None

    def __init__(self, name: str, fields: Sequence[MessageField], *, read_defaults: bool) -> None:
        self.type_info = Types.ROW_NAMED([f.name for f in fields], [f.column.type_info for f in fields])
        self._name = name
        self._fields = tuple(fields)
        self._by_number = sorted(range(len(fields)), key=lambda index: fields[index].number)
        self._read_defaults = read_defaults
        self._oneofs = _oneofs(fields)

    def read(self, stored: pa.Array) -> pa.Array:
        mask = None if self._read_defaults or not stored.null_count else stored.is_null()
        return pa.StructArray.from_arrays(self.read_fields(stored), fields=list(self.type_info.storage_type), mask=mask)

    def read_fields(self, stored: pa.Array) -> list[pa.Array]:
        """An array for each field; errors as for :meth:`read`."""
        found = self._in_order(stored.flatten())
        return [self._read(field, values, stored) for field, values in zip(self._fields, found, strict=True)]

    def _in_order(self, stored: Sequence[_T]) -> list[_T]:
        """Put the stored fields in the order of the fields of rows."""
        found = dict(zip(self._by_number, stored, strict=True))
        return [found[index] for index in range(len(found))]

    def _read(self, field: MessageField, stored: pa.Array, parent: pa.Array) -> pa.Array:
        if field.is_required and stored.null_count > parent.null_count:
            raise ValueError(inside_field(field.name, f"it is missing, and {self._name} requires it"))
        try:
            values = field.column.read(stored)
        except ValueError as error:
            raise ValueError(inside_field(field.name, str(error))) from error
        if values.null_count and field.default is not None and (self._read_defaults or not field.has_presence):
            return values.fill_null(pa.scalar(field.default, values.type))
        return values

    def write(self, values: pa.Array, stored: pa.DataType, where: str) -> pa.Array:
        arrays = self.write_fields(values.flatten(), list(stored), f"{where}.", values)
        return pa.StructArray.from_arrays(arrays, fields=list(stored), mask=values.is_null())

    def write_fields(
        self, arrays: Sequence[pa.Array], stored: Sequence[pa.MessageField], where: str, parent: pa.Array | None = None
    ) -> list[pa.Array]:
        """An array for each field; arguments and errors as for :meth:`write`.

        Args:
            arrays: the fields of the records.
            stored: the fields that are stored, of which the arrays are given.
            where: what stands before their names in messages.
            parent: the messages, of which some may be null.
        """
        nulls = 0 if parent is None else parent.null_count
        written = []
        for field, values, kind in zip(self._fields, arrays, self._in_order(stored), strict=True):
            if field.is_required and values.null_count > nulls:
                raise InvalidTypeError(f"{where}{field.name}: got None, and {self._name} requires it")
            made = field.column.write(values, kind.type, f"{where}{field.name}")
            written.append(made if field.has_presence else _without_zeros(without_nulls(field.column, made, "")))
        for members in self._oneofs:
            _keep_last(written, members)
        return [written[index] for index in self._by_number]

    def is_plain(self, stored: pa.Array) -> bool:
        return self.are_plain(stored.flatten())

    def are_plain(self, arrays: Sequence[pa.Array]) -> bool:
        """Do as :meth:`is_plain` for the arrays of the stored fields."""
        arrays = self._in_order(arrays)
        for members in self._oneofs:
            present = [valid_mask(arrays[index]) for index in members]
            if (np.sum(present, axis=0) > 1).any():
                return False
        return all(field.column.is_plain(array) for field, array in zip(self._fields, arrays, strict=True))


def without_nulls(column: FieldColumn, stored: pa.Array, null_literal: str) -> pa.Array:
    """Stored values with those in place of null ones that Flink puts there; messages without any field."""
    if isinstance(column, MessageColumn):
        return pa.StructArray.from_arrays(stored.flatten(), fields=list(stored.type)) if stored.null_count else stored
    if not stored.null_count or column.zero is None:
        return stored
    return stored.fill_null(pa.scalar(null_literal if pa.types.is_string(stored.type) else column.zero, stored.type))


def _without_zeros(stored: pa.Array) -> pa.Array:
    """Real numbers with null in place of 0.0, but not of -0.0; of others zeros are not written anyway."""
    if not pa.types.is_floating(stored.type):
        return stored
    bits = stored.view(pa.int32() if stored.type.bit_width == 32 else pa.int64())
    return pc.if_else(pc.equal(bits, 0), pa.scalar(None, stored.type), stored)


def _bounds(lists: pa.Array, read_defaults: bool) -> tuple[pa.Array, pa.Array | None]:
    """The offsets of lists among all their elements, and a mask of those that are taken for missing ones."""
    return list_offsets(lists), None if read_defaults else pa.array(list_lengths(lists) == 0)


def _oneofs(fields: Sequence[MessageField]) -> list[list[int]]:
    groups: dict[str, list[int]] = {}
    for index, field in enumerate(fields):
        if field.oneof is not None:
            groups.setdefault(field.oneof, []).append(index)
    return [members for members in groups.values() if len(members) > 1]


def _keep_last(arrays: list[pa.Array], members: Sequence[int]) -> None:
    """Keep the last value of fields that exclude each other, as in Flink."""
    taken = np.zeros(len(arrays[members[0]]), np.bool_)
    for index in reversed(members):
        array = arrays[index]
        valid = valid_mask(array)
        if (valid & taken).any():
            places = np.arange(len(array))
            arrays[index] = array.take(pa.array(places, mask=taken))
        taken |= valid


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
    return _ColumnBuilder(read_default_values, write_null_string_literal).message(schema.descriptor(), ())


@dataclass(frozen=True, slots=True)
class _ColumnBuilder:
    """Makes columns of descriptors.

    Attributes:
        read_defaults: see :class:`~headrace.formats.protobuf.messages.ProtobufRowDeserializationSchema`.
        null_literal: what is written for null strings in lists and maps.
    """

    read_defaults: bool
    null_literal: str

    def message(self, descriptor: Descriptor, inside: tuple[str, ...]) -> MessageColumn:
        """The columns of a message that is inside of others."""
        name = descriptor.full_name
        if name in inside:
            raise InvalidProgramError(f"the message {name} contains itself, so its values have no columns")
        if not descriptor.fields:
            raise InvalidProgramError(f"the message {name} has no fields, so its values have no columns")
        fields = [self._field(field, (*inside, name)) for field in descriptor.fields]
        return MessageColumn(name, fields, read_defaults=self.read_defaults)

    def _field(self, field: FieldDescriptor, inside: tuple[str, ...]) -> MessageField:
        column = self._column(field, inside)
        oneof = field.containing_oneof
        return MessageField(
            field.name,
            field.number,
            column,
            _default(field),
            has_presence=bool(field.has_presence) or field.is_repeated,
            is_required=field.is_required,
            oneof=None if oneof is None else oneof.name,
        )

    def _column(self, field: FieldDescriptor, inside: tuple[str, ...]) -> FieldColumn:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            elements = [self._value(of, inside) for of in message.fields]
        else:
            elements = [self._value(field, inside)]
            if not field.is_repeated:
                return elements[0]
        return RepeatedColumn(*elements, read_defaults=self.read_defaults, null_literal=self.null_literal)

    def _value(self, field: FieldDescriptor, inside: tuple[str, ...]) -> FieldColumn:
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
