"""List columns: rows with several elements each, over one flat array of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]
    Lengths = Sequence[int] | npt.NDArray[np.integer[Any]]


def list_columns(lengths: Lengths, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """List columns from flat ones, with so many elements in each row."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    place = pa.array(offsets)
    return {name: pa.ListArray.from_arrays(place, column) for name, column in columns.items()}


def rows_of_ranges(starts: Indices, lengths: Indices) -> Indices:
    """The rows of ranges, one range after the other."""
    return np.repeat(starts - heads_of(lengths), lengths) + np.arange(lengths.sum())


def heads_of(lengths: Indices) -> Indices:
    """Where each range begins when they stand one after the other."""
    heads: Indices = np.cumsum(lengths) - lengths
    return heads
