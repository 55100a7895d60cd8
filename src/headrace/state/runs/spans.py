"""Where in memory the values of Arrow columns are: what has to be verified before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int]
    """Address and size in bytes."""


def spans_of_column(array: pa.Array) -> Iterator[Span]:
    """Where a whole column is."""
    for buffer in array.buffers():
        if buffer is not None and buffer.size:
            yield buffer.address, buffer.size


def spans_of_rows(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Where some rows of a column are; of a column of a rare type, all of it.

    Offsets are given before they are read, so that a caller who verifies one span after the other never follows an
    offset that is wrong.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        yield from _cells(array.buffers()[0], start, stop, 1)
        for index in range(type_.num_fields):
            yield from spans_of_rows(array.field(index), start, stop)
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        yield from _list_spans(array, start, stop)
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        yield from _byte_spans(array, start, stop)
    elif pa.types.is_primitive(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_):
        validity, data = array.buffers()
        yield from _cells(validity, start, stop, 1)
        yield from _cells(data, start, stop, type_.bit_width)
    else:
        yield from spans_of_column(array)


def spans_of_offsets(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Where is said which elements the lists of some rows have."""
    yield from _cells(array.buffers()[1], start, stop + 1, 32)


def _cells(buffer: pa.Buffer | None, start: int, stop: int, bits: int) -> Iterator[Span]:
    if buffer is not None and buffer.size:
        first, end = start * bits // 8, -(-stop * bits // 8)
        yield buffer.address + first, end - first


def _byte_spans(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    validity, offsets, data = array.buffers()
    yield from _cells(validity, start, stop, 1)
    if offsets is not None and offsets.size:
        yield from _cells(offsets, start, stop + 1, 32)
        low, high = _bounds(offsets, start, stop)
        if data is not None and high > low:
            yield data.address + low, high - low


def _list_spans(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    validity, offsets, *_ = array.buffers()
    yield from _cells(validity, start, stop, 1)
    if offsets is not None and offsets.size:
        yield from _cells(offsets, start, stop + 1, 32)
        low, high = _bounds(offsets, start, stop)
        children = (array.keys, array.items) if pa.types.is_map(array.type) else (array.values,)
        for child in children:
            yield from spans_of_rows(child, low, high)


def _bounds(offsets: pa.Buffer, start: int, stop: int) -> tuple[int, int]:
    low, high = np.frombuffer(offsets, dtype=np.int32)[[start, stop]].tolist()
    return low, high
