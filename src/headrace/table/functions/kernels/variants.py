"""Variants, which are stored as JSON with the names of objects in order, and structured objects."""

import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from headrace.table.functions.kernels.json_values import parsed, written
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    as_array,
    by_row,
    is_constant,
    length_of,
    map_rows,
)

_MOST_DIGITS: Final = 38


def _variant(text: str, *, allows_duplicates: bool = False) -> str:
    read = _object if allows_duplicates else _object_of_different_names
    return written(json.loads(text, parse_float=_number, parse_constant=_no_constant, object_pairs_hook=read))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


def _object_of_different_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name comes twice in an object")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> Decimal | float | int:
    """A number as variants keep it: a decimal without zeros at the end, or a double when it has an exponent."""
    value = Decimal(text)
    if "e" in text.lower() or len(value.as_tuple().digits) > _MOST_DIGITS:
        return float(text)
    whole = value.to_integral_value()
    return int(whole) if whole == value else value.normalize()


def _try_variant(text: str, allows_duplicates: bool = False) -> str | None:
    try:
        return _variant(text, allows_duplicates=allows_duplicates)
    except ValueError:
        return None


def _parse(text: str, allows_duplicates: bool = False) -> str:
    try:
        return _variant(text, allows_duplicates=allows_duplicates)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from None


parse_json: Final = by_row(_parse)
try_parse_json: Final = by_row(_try_variant)


def _item(variant: str, key: int | str) -> str | None:
    value = parsed(variant)
    if isinstance(key, int):
        if not isinstance(value, list):
            raise ValueError(f"the variant {variant} is not an array, so it has no element {key}")
        return written(value[key - 1]) if 0 < key <= len(value) else None
    if not isinstance(value, dict):
        raise ValueError(f"the variant {variant} is not an object, so it has no field {key!r}")
    return written(value[key]) if key in value else None


item: Final = by_row(_item)


def object_of(call: Invocation, _: Datum, *entries: Datum) -> Datum:
    """An object of a class, of names and values in turn."""
    return _struct(call.storage, dict(zip(call.storage.names, entries[1::2], strict=True)))


def object_update(call: Invocation, value: Datum, *entries: Datum) -> Datum:
    """An object in which some fields, given by names and values in turn, are other ones."""
    kinds = call.storage
    column = as_array(value, length_of(value, *entries))
    fields: dict[str, Datum] = {kind.name: column.field(index) for index, kind in enumerate(kinds)}
    fields.update({name.as_py(): part for name, part in zip(entries[::2], entries[1::2], strict=True)})
    made = _struct(kinds, fields)
    length = len(column)
    made = as_array(made, length)
    return made[0] if is_constant(value, *entries) else made


def _struct(storage: pa.DataType, fields: dict[str, Datum]) -> Datum:
    length = length_of(*fields.values())
    kinds = list(storage)
    columns = [as_array(fields[kind.name], length).cast(kind.type) for kind in kinds]
    made = pa.StructArray.from_arrays(columns, fields=kinds)
    return made[0] if is_constant(*fields.values()) else made


def json_string(call: Invocation, variant: Datum) -> Datum:
    """JSON of a variant, which it is already."""
    return map_rows(str, call.storage, variant)
