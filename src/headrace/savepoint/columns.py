"""Columns as people read them, and as state has them: keys, and what else states are kept by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.columns import values_to_array
from headrace.common.errors import HeadraceError
from headrace.common.typeinfo import CompositeTypeInfo, PickledBytesTypeInfo, type_from_json
from headrace.state.exported import NAMESPACE
from headrace.state.keyed.namespaces import namespace_of, ordered_bytes
from headrace.state.keys import KeyCodec
from headrace.state.runs.layout import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.typeinfo import TypeInformation

ENCODED: Final = "key_encoded"
"""The keys in canonical form, where ``key`` could not give them back."""

WINDOW: Final = ("window_start", "window_end")
"""The two columns of namespaces that are windows; the second alone where windows are told by their ends."""


def readable(rows: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    """The rows of an exported table, with columns that other programs understand.

    ``key`` has the declared type of keys, if they and all parts of them are of one; else the text that Python shows for
    them, beside the bytes in ``key_encoded``. Namespaces are ``window_start`` and ``window_end`` where all of them are
    windows, and ``window_end`` alone where they are told by that.
    """
    columns: dict[str, pa.Array] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name == KEY and "keys" in about:
            columns |= readable_keys(_codec_of(about), column)
        elif name == NAMESPACE:
            columns |= _readable_namespaces(column)
        else:
            columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def as_stored(rows: pa.RecordBatch, about: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of the exported table whose :func:`readable` form these are, with the columns of a schema."""
    arrays = [_stored_column(rows, field.name, about).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored_column(rows: pa.RecordBatch, name: str, about: dict[str, Any]) -> pa.Array:
    names = rows.schema.names
    if name == KEY and "keys" in about:
        if ENCODED in names:
            return rows.column(ENCODED)
        codec = _codec_of(about)
        return rows.column(KEY) if codec.is_plain else codec.from_array(rows.column(KEY)).values
    if name == NAMESPACE and NAMESPACE not in names:
        return stored_namespaces(rows)
    return rows.column(name)


def type_of_keys(about: dict[str, Any]) -> TypeInformation | None:
    """The type of the keys of an exported table, by what is said of it; None where nothing is said of that."""
    keys = about.get("keys")
    return None if keys is None else type_from_json((keys["key"] if "namespace" in keys else keys)["type"])


def readable_keys(codec: KeyCodec, keys: pa.Array) -> dict[str, pa.Array]:
    """Keys in canonical form as ``key``; beside it they are ``key_encoded`` where that could not give them back."""
    if codec.is_plain:
        return {KEY: keys}
    if is_shown_as_text(codec.type):
        return {KEY: pa.array(_texts(codec, keys), pa.string()), ENCODED: keys}
    typed = values_to_array(codec.type, codec.decode(keys))
    is_exact = codec.from_array(typed).values.equals(keys)
    return {KEY: typed} if is_exact else {KEY: typed, ENCODED: keys}


def is_shown_as_text(type_: TypeInformation) -> bool:
    """Whether keys of a type, or parts of them, are any objects: those of classes that only the program knows, say."""
    if isinstance(type_, CompositeTypeInfo):
        return any(map(is_shown_as_text, type_.field_types))
    return isinstance(type_, PickledBytesTypeInfo)


def _codec_of(about: dict[str, Any]) -> KeyCodec:
    type_ = type_of_keys(about)
    assert type_ is not None, "keys have a type where there are any"
    return KeyCodec.for_type(type_)


def _texts(codec: KeyCodec, keys: pa.Array) -> list[str | None]:
    """What Python shows for keys of any type; null for those of classes that only the program knows."""
    try:
        return list(map(repr, codec.decode(keys)))
    except HeadraceError:  # at least one is; which, is found out one by one
        return [_texts(codec, keys.slice(number, 1))[0] for number in range(len(keys))] if len(keys) > 1 else [None]


def stored_namespaces(rows: pa.RecordBatch) -> pa.Array:
    """Namespaces by the starts and ends of windows, or by their ends alone; none where the end is null."""
    bounds = [rows.column(name).to_pylist() for name in WINDOW if name in rows.schema.names]
    windows: Iterable[Any] = zip(*bounds, strict=True) if len(bounds) == len(WINDOW) else bounds[0]
    ends = bounds[-1]
    return pa.array(
        [b"" if end is None else ordered_bytes(window) for window, end in zip(windows, ends, strict=True)], pa.binary()
    )


def _readable_namespaces(column: pa.Array) -> dict[str, pa.Array]:
    namespaces = [namespace_of(data) for data in column.to_pylist()]
    if all(isinstance(namespace, int) for namespace in namespaces):
        return {WINDOW[1]: pa.array(namespaces, pa.int64())}
    if not all(namespace is None or isinstance(namespace, tuple) for namespace in namespaces):
        return {NAMESPACE: column}
    bounds = zip(*((None, None) if namespace is None else namespace for namespace in namespaces), strict=True)
    return {name: pa.array(values, pa.int64()) for name, values in zip(WINDOW, bounds, strict=True)}
