"""Codecs of lists, arrays and maps."""

from __future__ import annotations

import array as arrays
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns.codec import Codec, NestedCodec, WrongValueError, first_wrong

if TYPE_CHECKING:
    from headrace.common.typeinfo import MapTypeInfo, SequenceTypeInfo

_SEQUENCES: Final = frozenset({list, tuple})


@dataclass(frozen=True, slots=True)
class SequenceCodec(NestedCodec):
    """Encodes lists; tuples, ``array.array`` and numpy's arrays of one dimension are taken as lists."""

    info: SequenceTypeInfo
    element: Codec

    @property
    def storage(self) -> pa.DataType:
        return self.info.arrow_type

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        if not _SEQUENCES.issuperset(set(map(type, values))):
            values = [self._listed(value) for value in values]
        flat = list(chain.from_iterable(values))
        elements = _encode_part(self.element, flat, "[{}]")
        if elements.null_count and not self.info.nullable_elements:
            raise WrongValueError(None, f"a value: {self.info} has no missing elements", f"[{flat.index(None)}]")
        return pa.ListArray.from_arrays(_offsets(values), elements, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        flat = self.element.decode(array.values.slice(start, length))
        return [flat[begin:end] for begin, end in pairwise(bounds)]

    def _listed(self, value: Any) -> list[Any]:
        if isinstance(value, list | tuple | arrays.array):
            return list(value)
        if isinstance(value, np.ndarray) and value.ndim == 1:
            return list(value.tolist())
        raise WrongValueError(value, f"a list, for {self.info}")


@dataclass(frozen=True, slots=True)
class MapCodec(NestedCodec):
    """Encodes dicts, keeping the order of their keys."""

    info: MapTypeInfo
    key: Codec
    value: Codec

    @property
    def storage(self) -> pa.DataType:
        return self.info.arrow_type

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if not isinstance(value, Mapping):
                raise WrongValueError(value, f"a dict, for {self.info}")
        keys = _encode_part(self.key, list(chain.from_iterable(values)), ", key {}")
        if keys.null_count:
            raise WrongValueError(None, "a key: a map has no None among its keys")
        items = _encode_part(self.value, list(chain.from_iterable(value.values() for value in values)), ", value {}")
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        keys = self.key.decode(array.keys.slice(start, length))
        items = self.value.decode(array.items.slice(start, length))
        return [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in pairwise(bounds)]


def _encode_part(codec: Codec, values: list[Any], place: str) -> pa.Array:
    try:
        return codec.encode(values)
    except WrongValueError as error:
        index, wrong = first_wrong(codec, values) or (0, error)
        raise wrong.inside(place.format(index)) from error


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _bounds(array: pa.Array) -> tuple[list[int], int, int]:
    """Where each value's parts are in the flat list of parts, and which slice of the children that list is."""
    offsets = array.offsets.to_numpy()
    start = int(offsets[0])
    return (offsets - start).tolist(), start, int(offsets[-1]) - start
