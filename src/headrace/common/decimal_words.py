"""Decimals of 128 bits whose digits are integers of 64 bits, as nearly all are."""

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.int64]


def of_words(values: npt.NDArray[Any], storage: pa.DataType, like: pa.Array) -> pa.Array:
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
