"""Arrow arrays by their buffers: strings and byte strings by bytes and offsets, decimals by words of 64 bits."""

from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.int64]

_BINARY: Final = pa.binary()


def binary_parts(array: pa.Array) -> tuple[Indices, memoryview]:
    """The offsets (one more than there are rows) and the data of a string or binary array, slices heeded."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, dtype=np.int64), memoryview(b"")
    positions = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=array.offset * 4)
    return positions.astype(np.int64), memoryview(b"" if data is None else data).cast("B")


def binary_array(
    data: npt.NDArray[Any], offsets: npt.NDArray[Any], kind: pa.DataType = _BINARY, like: pa.Array | None = None
) -> pa.Array:
    """Texts or byte strings, of their bytes and of where each begins (and the last one ends).

    Args:
        data: the bytes.
        offsets: the offsets.
        kind: a type of string or binary.
        like: a column; where it is null, the result is.
    """
    validity = None
    if like is not None and like.null_count:
        is_valid = like.is_valid().to_numpy(zero_copy_only=False)
        validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def fixed_width_array(cells: npt.NDArray[Any], kind: pa.DataType = _BINARY, like: pa.Array | None = None) -> pa.Array:
    """Texts or byte strings of one length, a row of bytes each."""
    rows, width = cells.shape
    return binary_array(cells, np.arange(0, (rows + 1) * width, width), kind, like)


def decimal_array(values: npt.NDArray[Any], storage: pa.DataType, like: pa.Array) -> pa.Array:
    """Decimals with these digits, null where another column is."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    made = pa.Array.from_buffers(storage, len(values), [None, pa.py_buffer(words)])
    return pc.if_else(pc.is_valid(like), made, pa.scalar(None, storage)) if like.null_count else made


def unscaled_words(column: pa.Array) -> tuple[Words, npt.NDArray[np.bool_]]:
    """The digits of decimals, 0 for nulls, and which of them integers of 64 bits can hold."""
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(Decimal(0), column.type))
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[::2], words[1::2]
    return low, high == low >> 63
