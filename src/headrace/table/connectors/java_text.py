"""Columns as the texts of the Java objects that Flink's ``print`` connector shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.logical_types import ArrayType, AtomicType, LogicalType, MapType, MultisetType, RowType, TypeRoot
from headrace.common.typeinfo.types import type_of_logical
from headrace.common.values import handler_of

_NULL: Final = "null"
_COLLECTIONS: Final = (ArrayType, MapType, MultisetType, RowType)
_LOCAL: Final = frozenset((TypeRoot.TIME, TypeRoot.TIMESTAMP))
_BYTES: Final = frozenset((TypeRoot.BINARY, TypeRoot.VARBINARY))


def java_texts(array: pa.Array, kind: LogicalType) -> list[str]:
    """The text of each value of a column of a type."""
    texts = _collections(array, kind) if isinstance(kind, _COLLECTIONS) else _scalars(array, kind)
    valid = array.is_valid().to_pylist()
    return [text if is_valid else _NULL for text, is_valid in zip(texts, valid, strict=True)]


def _collections(array: pa.Array, kind: LogicalType) -> list[str]:
    match kind:
        case ArrayType(element=element):
            return [f"[{', '.join(part)}]" for part in _parts(array, java_texts(array.values, element))]
        case MapType(key=key, value=value):
            return _maps(array, key, value)
        case MultisetType(element=element):
            return _maps(array, element, AtomicType(TypeRoot.INTEGER))
        case RowType(types=types):
            columns = [java_texts(*field) for field in zip(array.flatten(), types, strict=True)]
            return row_texts(["+I"] * len(array), columns)
    raise AssertionError(kind)


def _scalars(array: pa.Array, kind: LogicalType) -> list[str]:
    root = kind.root if isinstance(kind, AtomicType) else None
    if root in _LOCAL:
        return [_short_time(text).removesuffix(":00") for text in _as_strings(array)]
    if root is TypeRoot.TIMESTAMP_LTZ:
        return [f"{_short_time(text.removesuffix('Z'))}Z" for text in _as_strings(array)]
    if root in _BYTES:
        return [str([byte - (byte > 127) * 256 for byte in value or b""]) for value in array.to_pylist()]
    handler = handler_of(type_of_logical(kind))
    return [_NULL if value is None else handler.text(value) for value in handler.decode(array)]


def row_texts(symbols: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """The texts of rows, from those of their kinds and columns."""
    return [f"{symbol}[{', '.join(row)}]" for symbol, row in zip(symbols, zip(*columns, strict=True), strict=True)]


def _maps(array: pa.MapArray, key: LogicalType, value: LogicalType) -> list[str]:
    keys, items = java_texts(array.keys, key), java_texts(array.items, value)
    entries = [f"{name}={item}" for name, item in zip(keys, items, strict=True)]
    return [f"{{{', '.join(part)}}}" for part in _parts(array, entries)]


def _parts(array: pa.ListArray, elements: Sequence[str]) -> list[Sequence[str]]:
    offsets = array.offsets.to_pylist()
    return [elements[start:end] for start, end in pairwise(offsets)]


def _as_strings(array: pa.Array) -> list[str]:
    texts: list[str] = pc.replace_substring(array.cast(pa.string()), " ", "T").fill_null("").to_pylist()
    return texts


def _short_time(text: str) -> str:
    """A time with three, six or nine digits of a second, or none, as few as it needs."""
    time, _, fraction = text.partition(".")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{time}.{fraction}" if fraction else time
