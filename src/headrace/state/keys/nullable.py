"""Codecs of keys that are one column of SQL, where a null is a key like any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import Json, TypeInformation, type_from_json
from headrace.state.keys.codecs import KeyCodec, KeyColumn

NO_INTEGER: Final = -6_788_302_154_960_231_041
"""The integer that stands for null; as a value of a 64-bit column it is refused."""

_NO_TEXT: Final = b"\xff"
"""The string for null: no string is encoded like this."""


class NullableKeys(KeyCodec):
    """Keys of a column, of which any may be null."""

    is_plain = False
    takes_nulls = True
    gives_columns = True

    @staticmethod
    def of_column(type_: TypeInformation) -> NullableKeys | None:
        """The codec for columns of a type; None where they have to be encoded value by value."""
        storage = type_.storage_type
        if pa.types.is_integer(storage) or pa.types.is_boolean(storage) or pa.types.is_temporal(storage):
            return NullableIntegers(type_)
        return NullableStrings(type_) if pa.types.is_string(storage) else None

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        return self.from_array(values_to_array(self.type, list(keys)))

    @abstractmethod
    def from_array(self, array: pa.Array) -> KeyColumn: ...

    def decode(self, values: pa.Array) -> list[Any]:
        return array_to_values(self.type, self.to_array(values))

    def to_json(self) -> Json:
        return {**super().to_json(), "nulls": True}


class NullableIntegers(NullableKeys):
    """Integers, booleans, dates and times."""

    arrow_type: ClassVar[pa.DataType] = pa.int64()

    def from_array(self, array: pa.Array) -> KeyColumn:
        integers = _as_integers(array)
        if array.type.bit_width == _WIDE and (integers.to_numpy(zero_copy_only=False) == NO_INTEGER).any():
            found = pc.equal(integers, NO_INTEGER)
            if pc.any(found).as_py():
                raise InvalidTypeError(f"the key {NO_INTEGER} is refused, since it stands for NULL in state")
        return KeyColumn(integers.fill_null(NO_INTEGER) if integers.null_count else integers)

    def to_array(self, values: pa.Array) -> pa.Array:
        storage = self.type.storage_type
        numbers = values.to_numpy(zero_copy_only=False)
        is_null = numbers == NO_INTEGER
        if is_null.any():
            values = pa.array(np.where(is_null, 0, numbers), mask=is_null)
        if pa.types.is_temporal(storage) and storage.bit_width < _WIDE:
            values = values.cast(pa.int32())
        return values.cast(storage)


class NullableStrings(NullableKeys):
    """Strings."""

    def from_array(self, array: pa.Array) -> KeyColumn:
        data = array.view(pa.binary())
        return KeyColumn(data.fill_null(_NO_TEXT) if data.null_count else data)

    def to_array(self, values: pa.Array) -> pa.Array:
        is_null = pc.equal(values, _NO_TEXT)
        if pc.any(is_null).as_py():
            values = pc.if_else(is_null, pa.scalar(None, pa.binary()), values)
        return values.view(self.type.storage_type)


def codec_from_json(json: dict[str, Any]) -> KeyCodec:
    """The codec whose ``to_json`` this is; of keys without a declared type the classes are not known."""
    type_ = type_from_json(json["type"])
    nullable = NullableKeys.of_column(type_) if json.get("nulls") else None
    return KeyCodec.for_type(type_, takes_lists=True) if nullable is None else nullable


_WIDE: Final = 64


def _as_integers(array: pa.Array) -> pa.Array:
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == _WIDE else pa.int32())
    return array if pa.types.is_int64(array.type) else array.cast(pa.int64())
