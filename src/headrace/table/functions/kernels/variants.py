"""Variants, which are stored as JSON with the names of objects in order, and structured objects."""

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


def _variant(text: str) -> str:
    return written(_shortened(parsed(text)))


def _shortened(value: Any) -> Any:
    """Numbers as variants keep them: without zeros at the end, and doubles when they have too many digits."""
    if isinstance(value, dict):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part) for part in value]
    if not isinstance(value, Decimal):
        return value
    shown = value.normalize()
    _, digits, exponent = shown.as_tuple()
    if isinstance(exponent, int) and -_MOST_DIGITS <= exponent <= 0 and len(digits) <= _MOST_DIGITS:
        return shown
    return float(value)


def _try_variant(text: str) -> str | None:
    try:
        return _variant(text)
    except ValueError:
        return None


def _parse(text: str) -> str:
    try:
        return _variant(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no JSON: {error}") from None


parse_json: Final = by_row(_parse)
try_parse_json: Final = by_row(_try_variant)


def _item(variant: str, key: int | str) -> str | None:
    value = parsed(variant)
    if isinstance(key, int):
        if not isinstance(value, list):
            raise ValueError(f"the variant {variant} is no array, so it has no element {key}")
        return written(value[key - 1]) if 0 < key <= len(value) else None
    if not isinstance(value, dict):
        raise ValueError(f"the variant {variant} is no object, so it has no field {key!r}")
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
