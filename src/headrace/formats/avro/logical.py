"""What stored values of Avro stand for: times are numbers, decimals bytes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidTypeError
from headrace.common.values.basic import MOST_DIGITS_OF_EXPONENT
from headrace.formats.avro.schema import Fixed, Primitive

if TYPE_CHECKING:
    from headrace.formats.avro.schema import Node

STORED: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
"""The arrays of primitive values before anything is made of them."""

_MICROS: Final = {
    "time-millis": 1000,
    "time-micros": 1,
    "timestamp-millis": 1000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1000,
    "local-timestamp-micros": 1,
}
"""Microseconds in one of what is stored."""

_MOST_MICROS: Final = 2**63 - 1
_MOST_DECIMAL_BYTES: Final = 4096
"""More take a time that grows with the square of their number."""

_EXACT: Final = Context(prec=10_000)


def of_stored(node: Primitive | Fixed, array: pa.Array) -> pa.Array:
    """What stored values stand for, under the storage type of the node's type.

    Raises:
        ValueError: when a moment is too far away.
    """
    storage = node.type_info.storage_type
    if isinstance(node, Primitive) and node.kind in STORED and array.type != STORED[node.kind]:
        array = array.cast(STORED[node.kind], safe=False)  # integers may lose digits as floats, as elsewhere
    if node.logical == "decimal":
        return pa.array([_each(_decimal_text, value, node.scale) for value in array.to_pylist()], storage)
    if node.logical in _MICROS:
        return _in_micros(array.cast(pa.int64()), _MICROS[node.logical]).view(storage)
    return array if array.type == storage else array.view(storage)


def _in_micros(array: pa.Array, micros: int) -> pa.Array:
    if micros == 1:
        return array
    try:
        return pc.multiply_checked(array, micros)
    except pa.ArrowInvalid:
        far = next(value for value in array.to_pylist() if value is not None and abs(value) > _MOST_MICROS // micros)
        raise ValueError(f"got {far}, expected a time in the years 1 to 9999") from None


def to_stored(node: Primitive | Fixed, array: pa.Array, where: str) -> pa.Array:
    """The values that are stored.

    Args:
        node: what they stand for.
        array: values under the storage type of the node's type; none is null.
        where: the field, for messages.

    Raises:
        InvalidTypeError: when a decimal has more digits than are stored.
    """
    if node.logical == "decimal":
        size = node.size if isinstance(node, Fixed) else None
        return pa.array([_unscaled(text, node.scale, size, where) for text in array.to_pylist()], pa.binary())
    if node.logical in _MICROS:
        counted = array.view(pa.int64())
        micros = _MICROS[node.logical]
        if micros > 1:
            numbers = np.floor_divide(counted.to_numpy(zero_copy_only=False), micros)
            counted = pa.array(numbers, pa.int64())
    elif node.logical == "date":
        counted = array.view(pa.int32())
    else:
        return array
    assert isinstance(node, Primitive)
    return counted.cast(STORED[node.kind])


def _each(convert: Callable[[bytes, int], str], value: bytes | None, scale: int) -> str | None:
    return None if value is None else convert(value, scale)


def _decimal_text(value: bytes, scale: int) -> str:
    if abs(scale) > MOST_DIGITS_OF_EXPONENT:
        raise ValueError(f"got a decimal whose scale is {scale}, expected at most {MOST_DIGITS_OF_EXPONENT}")
    if len(value) > _MOST_DECIMAL_BYTES:
        raise ValueError(f"got {len(value)} bytes, expected a decimal of at most {_MOST_DECIMAL_BYTES}")
    return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT))


def _unscaled(text: str, scale: int, size: int | None, where: str) -> bytes:
    scaled = Decimal(text).scaleb(scale, _EXACT)
    whole = int(scaled) if scaled.is_finite() else None
    if whole is None or whole != scaled:
        raise InvalidTypeError(f"{where}: {text} does not fit the Avro schema, whose decimals have {scale} digits")
    length = size or (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    try:
        return whole.to_bytes(length, "big", signed=True)
    except OverflowError:
        raise InvalidTypeError(f"{where}: {text} does not fit the {size} bytes of the Avro schema") from None


def is_of_time(node: Node) -> bool:
    """Whether values are times of some unit."""
    return isinstance(node, Primitive) and (node.logical in _MICROS or node.logical == "date")
