"""Types of records by a schema of Arrow, that of a file say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation

_SIMPLE: list[tuple[Callable[[pa.DataType], bool], Callable[[], TypeInformation]]] = [
    (pa.types.is_boolean, Types.BOOLEAN),
    (pa.types.is_int8, Types.BYTE),
    (pa.types.is_int16, Types.SHORT),
    (pa.types.is_uint8, Types.SHORT),
    (pa.types.is_int32, Types.INT),
    (pa.types.is_uint16, Types.INT),
    (pa.types.is_int64, Types.LONG),
    (pa.types.is_uint32, Types.LONG),
    (pa.types.is_uint64, Types.BIG_INT),
    (pa.types.is_float16, Types.FLOAT),
    (pa.types.is_float32, Types.FLOAT),
    (pa.types.is_float64, Types.DOUBLE),
    (pa.types.is_string, Types.STRING),
    (pa.types.is_large_string, Types.STRING),
    (pa.types.is_binary, Types.BYTES),
    (pa.types.is_large_binary, Types.BYTES),
    (pa.types.is_fixed_size_binary, Types.BYTES),
    (pa.types.is_date, Types.SQL_DATE),
    (pa.types.is_time, Types.SQL_TIME),
    (pa.types.is_decimal, Types.BIG_DEC),
]


def type_of_schema(schema: pa.Schema) -> TypeInformation:
    """Named rows with a field for every column.

    Raises:
        InvalidTypeError: naming the column that has no type in headrace.
    """
    return Types.ROW_NAMED(schema.names, [_type_of(field) for field in schema])


def _type_of(field: pa.Field) -> TypeInformation:
    kind = field.type
    for test, make in _SIMPLE:
        if test(kind):
            return make()
    if pa.types.is_timestamp(kind):
        return Types.SQL_TIMESTAMP() if kind.tz is None else Types.TIMESTAMP_LTZ()
    if pa.types.is_dictionary(kind):
        return _type_of(field.with_type(kind.value_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Types.LIST(_type_of(kind.value_field))
    if pa.types.is_map(kind):
        return Types.MAP(_type_of(kind.key_field), _type_of(kind.item_field))
    if pa.types.is_struct(kind):
        return Types.ROW_NAMED([inner.name for inner in kind], [_type_of(inner) for inner in kind])
    raise InvalidTypeError(f"column {field.name!r} is {kind}, which has no type in headrace: choose other columns")
