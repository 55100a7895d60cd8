"""Between Arrow arrays and numpy: values and validity seen apart, nothing copied that need not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


def validity(array: pa.Array) -> Mask | None:
    """Where the array has a value; None when it has one everywhere."""
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def fixed_width(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array of numbers or times, as numbers; where there is a null the value is arbitrary."""
    if pa.types.is_boolean(array.type):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False)).view(np.int8)
    dtype = _number_type(array.type)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


def of_fixed_width(values: npt.NDArray[Any], valid: Mask | None, type_: pa.DataType) -> pa.Array:
    """The inverse of :func:`fixed_width`."""
    mask = None if valid is None or valid.all() else ~valid
    if pa.types.is_boolean(type_):
        return pa.array(values.view(np.bool_), mask=mask)
    return pa.array(values, mask=mask).view(type_)


def is_fixed_width(type_: pa.DataType) -> bool:
    """Whether :func:`fixed_width` takes arrays of that type."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_float32(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_date(type_)
        or pa.types.is_time(type_)
        or pa.types.is_timestamp(type_)
    )


def concat(arrays: list[pa.Array]) -> pa.Array:
    """The arrays one after the other."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def gather(array: pa.Array, indices: npt.NDArray[np.int64]) -> pa.Array:
    """The elements at ``indices``."""
    if array.null_count == len(array):
        return pa.nulls(len(indices), array.type)
    return array.take(pa.array(indices))


def list_lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    """How many elements each list has; none where it is null."""
    lengths: npt.NDArray[np.int64] = fixed_width(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    return lengths


def lists_of(elements: pa.Array, lengths: npt.NDArray[np.int64], is_missing: Mask | None = None) -> pa.ListArray:
    """Lists of the given lengths that follow one another in ``elements``; null where ``is_missing``."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    mask = None if is_missing is None or not is_missing.any() else pa.array(is_missing)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=mask)


def _number_type(type_: pa.DataType) -> np.dtype[Any]:
    kind = "i"
    if pa.types.is_floating(type_):
        kind = "f"
    elif pa.types.is_unsigned_integer(type_):
        kind = "u"
    return np.dtype(f"{kind}{type_.bit_width // 8}")
