"""Columns as text, value by value and without a loop in Python, for the encoders of text formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def simple_text(column: pa.Array) -> pa.Array:
    """The values of a column of simple values as strings; what is missing stays so."""
    if pa.types.is_string(column.type):
        return column
    return column.cast(pa.string())


def whole_number_text(column: pa.Array) -> pa.Array:
    """The values of a column of integers in digits; long ones of BIG_INT are stored as hexadecimal ones."""
    if not pa.types.is_string(column.type):
        return simple_text(column)
    is_hexadecimal = pc.match_substring(column, "0x")
    if not pc.any(is_hexadecimal, min_count=0).as_py():
        return column
    digits = [str(int(text, 16)) for text in column.filter(is_hexadecimal).to_pylist()]
    return pc.replace_with_mask(column, is_hexadecimal.fill_null(False), pa.array(digits, pa.string()))


def join_text(parts: Sequence[pa.Array | str]) -> pa.Array:
    """The strings of several columns, and fixed ones between them, put together row by row."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def bytes_of(column: pa.Array) -> bytes:
    """The strings of a column without missing values, one after the other."""
    return characters_of(column).tobytes()


def characters_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a column of strings, one string after the other; of missing ones there may be something, too."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
