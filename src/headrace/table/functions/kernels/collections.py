"""Arrays, maps, multisets and rows."""

from collections.abc import Hashable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.bitmaps import packed, unpacked, unsigned
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    as_array,
    by_row,
    by_row_with_nulls,
    element_at,
    is_constant,
    length_of,
    map_rows,
    on_arrays,
)

Pairs = list[tuple[Any, Any]]
"""A map as Arrow gives it to Python."""


def hashable(value: Any) -> Hashable:
    """A value that is equal to another as SQL's are, and that sets take."""
    if isinstance(value, dict):
        return tuple((name, hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        made = [hashable(part) for part in value]
        return frozenset(made) if value and isinstance(value[0], tuple) else tuple(made)
    if isinstance(value, tuple):
        return tuple(hashable(part) for part in value)
    return (float, "NaN") if value != value else value  # noqa: PLR0124


# --- constructors --------------------------------------------------------------------------------------------------


def array(call: Invocation, *elements: Datum) -> Datum:
    """An array of the values of each row."""
    if is_constant(*elements):
        return pa.scalar([element.as_py() for element in elements], call.storage)
    length, count = length_of(*elements), len(elements)
    kind = call.storage.value_type
    columns = [as_array(element, length).cast(kind) for element in elements]
    places = np.arange(length * count).reshape(count, length).T.ravel()
    values = pa.concat_arrays(columns).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(np.arange(length + 1) * count, pa.int32()), values)


def row(call: Invocation, *fields: Datum) -> Datum:
    """A row of some values."""
    kinds = list(call.storage)

    def compute(*columns: pa.Array) -> pa.Array:
        cast = [column.cast(kind.type) for column, kind in zip(columns, kinds, strict=True)]
        return pa.StructArray.from_arrays(cast, fields=kinds)

    return on_arrays(compute)(*fields)


def map_(call: Invocation, *entries: Datum) -> Datum:
    """A map of keys and values in turn; of equal keys the last one wins."""
    if not entries:
        return pa.scalar([], call.storage)
    return map_rows(
        lambda *row: _of_pairs(zip(row[::2], row[1::2], strict=True)), call.storage, *entries, is_strict=False
    )


def _of_pairs(pairs: Any) -> Pairs:
    made: dict[Hashable, tuple[Any, Any]] = {}
    for key, value in pairs:
        if key is None:
            raise ValueError("a key of a map is NULL")
        made[hashable(key)] = (key, value)
    return list(made.values())


def multiset(call: Invocation, *elements: Datum) -> Datum:
    """A multiset of the values of each row."""
    return map_rows(lambda *row: counted(row), call.storage, *elements, is_strict=False)


def counted(elements: Any) -> Pairs:
    """Elements with how often each is there."""
    made: dict[Hashable, tuple[Any, int]] = {}
    for element in elements:
        key = hashable(element)
        made[key] = (element, made[key][1] + 1 if key in made else 1)
    return list(made.values())


# --- access --------------------------------------------------------------------------------------------------------


def item(call: Invocation, collection: Datum, index: Datum) -> Datum:
    """The element of an array at a position from 1 on, or the value of a map's key; NULL when there is none."""
    function = _of_key if pa.types.is_map(collection.type) else _at
    if pa.types.is_list(collection.type) and isinstance(index, pa.Scalar) and isinstance(collection, pa.Array):
        return element_at(collection, index.as_py())
    return map_rows(function, call.storage, collection, index)


def _at(elements: list[Any], index: int) -> Any:
    return elements[index - 1] if 0 < index <= len(elements) else None


def _of_key(pairs: Pairs, key: Any) -> Any:
    wanted = hashable(key)
    return next((value for other, value in reversed(pairs) if hashable(other) == wanted), None)


def element(call: Invocation, collection: Datum) -> Datum:
    """The only element of an array, NULL when it has none."""

    def only(elements: list[Any]) -> Any:
        if len(elements) > 1:
            raise ValueError(f"ELEMENT takes an array of at most one element, not of {len(elements)}")
        return elements[0] if elements else None

    return map_rows(only, call.storage, collection)


def cardinality(call: Invocation, collection: Datum) -> Datum:
    """The number of elements of an array, or of entries of a map; a multiset counts duplicates."""
    if isinstance(collection, pa.Array) and not pa.types.is_map(collection.type):
        return pc.list_value_length(collection).cast(call.storage)
    return map_rows(len, call.storage, collection)


# --- arrays --------------------------------------------------------------------------------------------------------


def _contains(elements: list[Any] | None, wanted: Any) -> bool | None:
    return None if elements is None else hashable(wanted) in map(hashable, elements)


def _position(elements: list[Any], wanted: Any) -> int:
    key = hashable(wanted)
    return next((place for place, each in enumerate(elements, 1) if hashable(each) == key), 0)


def _append(elements: list[Any] | None, more: Any) -> list[Any] | None:
    return None if elements is None else [*elements, more]


def _prepend(elements: list[Any] | None, more: Any) -> list[Any] | None:
    return None if elements is None else [more, *elements]


def _remove(elements: list[Any] | None, unwanted: Any) -> list[Any] | None:
    key = hashable(unwanted)
    return None if elements is None else [each for each in elements if hashable(each) != key]


def _unique(elements: list[Any]) -> list[Any]:
    """Each element once, where it is first."""
    seen: dict[Hashable, Any] = {}
    for each in elements:
        seen.setdefault(hashable(each), each)
    return list(seen.values())


def _intersect(left: list[Any], right: list[Any]) -> list[Any]:
    others = set(map(hashable, right))
    return _unique([each for each in left if hashable(each) in others])


def _except(left: list[Any], right: list[Any]) -> list[Any]:
    others = set(map(hashable, right))
    return _unique([each for each in left if hashable(each) not in others])


def _extreme(choose: Any, elements: list[Any]) -> Any:
    known = [each for each in elements if each is not None]
    return choose(known) if known else None


def _sort(elements: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    known = sorted((each for each in elements if each is not None), reverse=not ascending)
    nulls = [None] * (len(elements) - len(known))
    return nulls + known if (ascending if nulls_first is None else nulls_first) else known + nulls


def _slice(elements: list[Any], start: int, end: int | None = None) -> list[Any]:
    length = len(elements)
    first = start if start > 0 else length + start + 1 if start < 0 else 1
    last = length if end is None else end if end > 0 else length + end + 1 if end < 0 else 1
    return elements[max(first, 1) - 1 : last] if first <= length and last >= max(first, 1) else []


def _join(elements: list[Any], separator: str, for_null: str | None = None) -> str:
    shown = (for_null if each is None else each for each in elements)
    return separator.join(each for each in shown if each is not None)


array_contains: Final = by_row_with_nulls(_contains)
array_position: Final = by_row(_position)
array_append: Final = by_row_with_nulls(_append)
array_prepend: Final = by_row_with_nulls(_prepend)
array_remove: Final = by_row_with_nulls(_remove)
array_distinct: Final = by_row(_unique)
array_reverse: Final = by_row(lambda elements: elements[::-1])
array_concat: Final = by_row(lambda *arrays: [each for one in arrays for each in one])
array_union: Final = by_row(lambda left, right: _unique(left + right))
array_intersect: Final = by_row(_intersect)
array_except: Final = by_row(_except)
array_max: Final = by_row(partial(_extreme, max))
array_min: Final = by_row(partial(_extreme, min))
array_sort: Final = by_row(_sort)
array_slice: Final = by_row(_slice)
array_join: Final = by_row(_join)


# --- maps ----------------------------------------------------------------------------------------------------------


def _from_arrays(keys: list[Any], values: list[Any]) -> Pairs:
    if len(keys) != len(values):
        raise ValueError(f"MAP_FROM_ARRAYS got {len(keys)} keys and {len(values)} values")
    return _of_pairs(zip(keys, values, strict=True))


map_keys: Final = by_row(lambda pairs: [key for key, _ in pairs])
map_values: Final = by_row(lambda pairs: [value for _, value in pairs])
map_union: Final = by_row(lambda *maps: _of_pairs(pair for pairs in maps for pair in pairs))
map_from_arrays: Final = by_row(_from_arrays)


def map_entries(call: Invocation, entries: Datum) -> Datum:
    """The entries of a map as an array of rows of a key and a value."""
    key, value = (field.name for field in call.storage.value_type)
    return map_rows(lambda pairs: [{key: one, value: other} for one, other in pairs], call.storage, entries)


bitmap_build: Final = by_row(lambda values: packed([value for value in values if value is not None]))
bitmap_cardinality: Final = by_row(lambda data: len(unpacked(data)))
bitmap_to_array: Final = by_row(lambda data: unpacked(data).tolist())
bitmap_to_string: Final = by_row(lambda data: "{" + ",".join(map(str, unsigned(data).tolist())) + "}")
bitmap_to_bytes: Final = by_row(lambda data: data)
bitmap_from_bytes: Final = by_row(lambda data: packed(unpacked(data)))
bitmap_and: Final = by_row(lambda left, right: packed(np.intersect1d(unsigned(left), unsigned(right))))
bitmap_or: Final = by_row(lambda left, right: packed(np.union1d(unsigned(left), unsigned(right))))
bitmap_xor: Final = by_row(lambda left, right: packed(np.setxor1d(unsigned(left), unsigned(right))))
bitmap_andnot: Final = by_row(lambda left, right: packed(np.setdiff1d(unsigned(left), unsigned(right))))
