"""Values of the cases: JSON to columns, and columns back to JSON, in the forms that the corpus uses."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.bitmaps import unpacked
from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    StructuredType,
    TypeRoot,
)

Json = Any

_WORD: Final = 0xFFFF_FFFF
_DECIMALS: Final = Context(prec=80)
_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_TIMES: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_DAY: Final = 86_400_000_000


def array_of(values: Sequence[Json], kind: LogicalType) -> pa.Array:
    """A column of values of the input of a case."""
    return pa.array([_value(value, kind) for value in values], kind.arrow_type)


def _value(value: Json, kind: LogicalType) -> object:
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [_value(item, kind.element) for item in value]
    if isinstance(kind, MapType):
        entries = sorted(value.items(), key=lambda entry: _place_in_hash_map(entry[0], len(value)))
        return [(_value(key, kind.key), _value(item, kind.value)) for key, item in entries]
    if isinstance(kind, MultisetType):
        return [(_value(key, kind.element), item) for key, item in value.items()]
    if isinstance(kind, RowType):
        fields = value.values() if isinstance(value, dict) else value
        return {name: _value(item, part) for name, item, part in zip(kind.names, fields, kind.types, strict=True)}
    assert isinstance(kind, AtomicType), kind
    return _atom(value, kind)


def _place_in_hash_map(key: str, size: int) -> int:
    """Where Java's HashMap keeps a text of Flink: its entries come in this order, and so does what reads the map."""
    data = key.encode()
    whole = len(data) // 4 * 4
    words = [int.from_bytes(data[place : place + 4], "little") for place in range(0, whole, 4)]
    words += [byte - 256 if byte > 127 else byte for byte in data[whole:]]
    found = 42
    for word in words:
        found ^= _rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
        found = (_rotated(found, 13) * 5 + 0xE6546B64) & _WORD
    found ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> shift) * factor & _WORD
    places = 16
    while size > places * 3 // 4:
        places *= 2
    return (found ^ found >> 16) % places


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def _atom(value: Json, kind: AtomicType) -> object:
    read = _READERS.get(kind.root)
    return value if read is None else read(value, kind)


def _decimal(value: Json, kind: AtomicType) -> Decimal:
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-(kind.scale or 0)), ROUND_HALF_UP, _DECIMALS)


def _moment(value: str, kind: AtomicType) -> int:
    unit = "ns" if kind.has_nanoseconds else "us"
    return int(np.datetime64(value.rstrip("Z").replace(" ", "T"), unit).astype(np.int64))


_READERS: Final[dict[TypeRoot, Callable[[Json, AtomicType], object]]] = {
    **dict.fromkeys(_INTEGERS, lambda value, _: int(value)),
    **dict.fromkeys((TypeRoot.FLOAT, TypeRoot.DOUBLE), lambda value, _: float(value)),
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), lambda value, _: b64decode(value)),
    **dict.fromkeys(_TIMES, _moment),
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.DATE: lambda value, _: int(np.datetime64(value, "D").astype(np.int64)),
    TypeRoot.TIME: lambda value, _: int(np.datetime64(f"1970-01-01T{value}", "us").astype(np.int64)),
}


def json_of(column: pa.Array, kind: LogicalType) -> list[Json]:
    """The values of a column as the corpus writes them."""
    if isinstance(kind, ArrayType):
        return _lists(column, json_of(column.flatten(), kind.element))
    if isinstance(kind, MapType | MultisetType):
        item = kind.value if isinstance(kind, MapType) else None
        key = kind.key if isinstance(kind, MapType) else kind.element
        return _maps(column, key, item)
    if isinstance(kind, RowType | StructuredType):
        fields = [json_of(column.field(number), part) for number, part in enumerate(kind.types)]
        rows = [list(row) for row in zip(*fields, strict=True)]
        return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if isinstance(kind, IntervalType):
        numbers = column.cast(pa.int64()).to_pylist()
        return numbers if kind.unit.is_of_months else [None if n is None else n // 1000 for n in numbers]
    assert isinstance(kind, AtomicType), kind
    return [None if value is None else _atom_text(value, kind) for value in _python(column, kind)]


def _python(column: pa.Array, kind: AtomicType) -> list[Any]:
    if kind.root is TypeRoot.DATE:
        return column.view(pa.int32()).to_pylist()
    if kind.root in (*_TIMES, TypeRoot.TIME):
        return column.view(pa.int64()).to_pylist()
    return column.to_pylist()


def _atom_text(value: Any, kind: AtomicType) -> Json:
    write = _WRITERS.get(kind.root)
    return value if write is None else write(value, kind)


def _moment_text(value: int, kind: AtomicType) -> str:
    day, rest = divmod(value if kind.has_nanoseconds else value * 1000, _DAY * 1000)
    return f"{_date(day)} {_clock(rest, kind.size or 0)}"


_WRITERS: Final[dict[TypeRoot, Callable[[Any, AtomicType], Json]]] = {
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), lambda value, _: f"0x{value.hex()}"),
    TypeRoot.DECIMAL: lambda value, _: f"{value:f}",
    TypeRoot.BITMAP: lambda value, _: "{" + ",".join(map(str, unpacked(value).view(np.uint32).tolist())) + "}",
    TypeRoot.FLOAT: lambda value, _: _float(float(str(np.float32(value)))),
    TypeRoot.DOUBLE: lambda value, _: _float(value),
    TypeRoot.DATE: lambda value, _: _date(value),
    TypeRoot.TIME: lambda value, kind: _clock(value // 1000 * 1_000_000, 3 if kind.size else 0),
    TypeRoot.TIMESTAMP: _moment_text,
    TypeRoot.TIMESTAMP_LTZ: lambda value, kind: _moment_text(value, kind) + "Z",
}


def _float(value: float) -> Json:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def _date(days: int) -> str:
    year, rest = str(np.datetime64(days, "D")).rsplit("-", 2)[0], str(np.datetime64(days, "D")).rsplit("-", 2)[1:]
    number = int(year)
    shown = f"-{-number:04}" if number < 0 else f"{number:04}" if number <= 9999 else f"+{number}"
    return "-".join([shown, *rest])


def _clock(nanos: int, digits: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}"[: len(text) + 1 + digits] if digits else text


def _lists(column: pa.Array, items: list[Json]) -> list[Json]:
    lengths, place = [None if not value.is_valid else len(value) for value in column], 0
    found: list[Json] = []
    for length in lengths:
        found.append(None if length is None else items[place : place + length])
        place += length or 0
    return found


def _maps(column: pa.Array, key: LogicalType, item: LogicalType | None) -> list[Json]:
    found: list[Json] = []
    for value in column:
        if not value.is_valid:
            found.append(None)
            continue
        entries = value.values
        keys = json_of(entries.field(0), key)
        items = entries.field(1).to_pylist() if item is None else json_of(entries.field(1), item)
        found.append(sorted(([k, v] for k, v in zip(keys, items, strict=True)), key=sort_text))
    return found


def sort_text(value: Json) -> str:
    """The text by which the corpus sorts: JSON without spaces, as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
