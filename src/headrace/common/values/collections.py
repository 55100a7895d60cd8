"""Handlers of lists, arrays and maps."""

from __future__ import annotations

import array as arrays
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.values.handler import (
    NestedHandler,
    TypeHandler,
    WrongValueError,
    any_of,
    first_wrong,
    valid_mask,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo import MapTypeInfo, SequenceTypeInfo
    from headrace.common.values.handler import CheckSource, Mask

_SEQUENCES: Final = frozenset({list, tuple})


class SequenceHandler(NestedHandler):
    """LIST and the arrays: lists; tuples, ``array.array`` and numpy's arrays of one dimension are taken as such."""

    __slots__ = ("_element",)

    info: SequenceTypeInfo

    def __init__(self, info: SequenceTypeInfo, element: TypeHandler) -> None:
        self._element = element
        super().__init__(info)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        if not _SEQUENCES.issuperset(set(map(type, values))):
            values = [self._listed(value) for value in values]
        flat = list(chain.from_iterable(values))
        elements = _encode_part(self._element, flat, "[{}]")
        return pa.ListArray.from_arrays(_offsets(values), elements, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        flat = self._element.decode(array.values.slice(start, length))
        return [flat[begin:end] for begin, end in pairwise(bounds)]

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        return _with_any(array, self._element.unreadable(_parts_of(array, array.values)))

    def explained_present(self, array: pa.Array) -> WrongValueError:
        elements = array.flatten()
        mask = self._element.unreadable(elements)
        assert mask is not None
        return _explained_part(self._element, elements, mask, "[{}]")

    def _listed(self, value: Any) -> list[Any]:
        if isinstance(value, list | tuple | arrays.array):
            return list(value)
        if isinstance(value, np.ndarray) and value.ndim == 1:
            return list(value.tolist())
        raise WrongValueError(value, f"a list, for {self.info}")

    def add_check(self, source: CheckSource, value: str) -> str:
        first, elements = source.bind(value)
        return f"type({first}) is list and {source.name_of(self._element.all_coerced)}({elements})"

    def text_of_present(self, value: Any) -> str:
        return f"[{', '.join(map(self._element.text, value))}]"


class MapHandler(NestedHandler):
    """MAP: dicts, also other mappings, in the order of their keys."""

    __slots__ = ("_key", "_value")

    info: MapTypeInfo

    def __init__(self, info: MapTypeInfo, key: TypeHandler, value: TypeHandler) -> None:
        self._key = key
        self._value = value
        super().__init__(info)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if not isinstance(value, Mapping):
                raise WrongValueError(value, f"a dict, for {self.info}")
        keys = _encode_part(self._key, list(chain.from_iterable(values)), ", key {}")
        if keys.null_count:
            raise WrongValueError(None, "a key: a map has no None among its keys")
        items = _encode_part(self._value, list(chain.from_iterable(value.values() for value in values)), ", value {}")
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        keys = self._key.decode(array.keys.slice(start, length))
        items = self._value.decode(array.items.slice(start, length))
        return [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in pairwise(bounds)]

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        keys, items = _parts_of(array, array.keys), _parts_of(array, array.items)
        return _with_any(array, any_of([self._key.unreadable(keys), self._value.unreadable(items)]))

    def explained_present(self, array: pa.Array) -> WrongValueError:
        keys, items = _parts_of(array, array.keys), _parts_of(array, array.items)
        mask = self._key.unreadable(keys)
        if mask is not None:
            return _explained_part(self._key, keys, mask, ", key {}")
        mask = self._value.unreadable(items)
        assert mask is not None
        return _explained_part(self._value, items, mask, ", value {}")

    def add_check(self, source: CheckSource, value: str) -> str:
        first, entries = source.bind(value)
        keys, items = source.name_of(self._key.all_coerced), source.name_of(self._value.all_coerced)
        return f"type({first}) is dict and None not in {entries} and {keys}({entries}) and {items}({entries}.values())"

    def text_of_present(self, value: Any) -> str:
        key, item = self._key.text, self._value.text
        return f"{{{', '.join([f'{key(k)}={item(v)}' for k, v in value.items()])}}}"


def _encode_part(handler: TypeHandler, values: list[Any], place: str) -> pa.Array:
    try:
        return handler.encode(values)
    except WrongValueError as error:
        index, wrong = first_wrong(handler, values) or (0, error)
        raise wrong.inside(place.format(index)) from error


def _parts_of(array: pa.Array, child: pa.Array) -> pa.Array:
    """The parts of all values, of a child that may have more; those of missing values are among them."""
    offsets = array.offsets
    start = offsets[0].as_py()
    return child.slice(start, offsets[len(array)].as_py() - start)


def _with_any(array: pa.Array, parts: Mask | None) -> Mask | None:
    """Return a mask of the values that contain a marked part."""
    if parts is None:
        return None
    offsets, before = array.offsets.to_numpy(), np.concatenate(([0], np.cumsum(parts)))
    counts = before[offsets - offsets[0]]
    found: Mask = (counts[1:] > counts[:-1]) & valid_mask(array)
    return found if found.any() else None


def _explained_part(handler: TypeHandler, parts: pa.Array, mask: Mask, place: str) -> WrongValueError:
    first = int(np.flatnonzero(mask)[0])
    return handler.explained(parts.slice(first, 1)).inside(place.format(first))


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _bounds(array: pa.Array) -> tuple[list[int], int, int]:
    """Where each value's parts are in the flat list of parts, and which slice of the children that list is."""
    offsets = array.offsets.to_numpy()
    start = int(offsets[0])
    return (offsets - start).tolist(), start, int(offsets[-1]) - start
