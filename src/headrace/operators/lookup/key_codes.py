"""Numbers for keys of several columns, and the rows of a table by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

MISSING = -1
"""The code of a key that is not there, or has a NULL in it, which equals nothing."""


class KeyCodes:
    """A number from 0 for each different key of some rows, by which keys of other rows are found.

    Args:
        columns: the columns of the key; without any, all rows have one key.
        rows: the number of rows.

    Attributes:
        codes: the code of each row.
        count: the number of codes.
    """

    def __init__(self, columns: Sequence[pa.Array], rows: int) -> None:
        self._steps: list[tuple[pa.Array, Longs]] = []
        codes = np.zeros(rows, np.int64)
        for column in map(_comparable, columns):
            values = pc.unique(column).drop_null()
            pairs = _pairs(codes, column, values)
            known = np.unique(pairs[pairs != MISSING])
            self._steps.append((values, known))
            codes = _places(pairs, known)
        self.codes = codes
        self.count = len(self._steps[-1][1]) if columns else 1

    def of(self, columns: Sequence[pa.Array], rows: int) -> Longs:
        """The codes of other rows; ``MISSING`` for keys that are not there."""
        codes = np.zeros(rows, np.int64)
        for column, (values, known) in zip(map(_comparable, columns), self._steps, strict=True):
            codes = _places(_pairs(codes, column, values), known)
        return codes


def _comparable(column: pa.Array) -> pa.Array:
    """A column with one zero and one NaN, if it has floats."""
    if not pa.types.is_floating(column.type):
        return column
    one_zero = pc.add(column, pa.scalar(0, column.type))
    return pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), column.type), one_zero)


def _pairs(codes: Longs, column: pa.Array, values: pa.Array) -> Longs:
    """Codes with the place of the value in one more column."""
    places = pc.index_in(column, value_set=values).fill_null(MISSING).to_numpy(zero_copy_only=False)
    is_missing = (codes == MISSING) | (places == MISSING)
    return np.where(is_missing, MISSING, codes * len(values) + places)


def _places(pairs: Longs, known: Longs) -> Longs:
    """The place of each among those that are known, in order."""
    if not len(known):
        return np.full(len(pairs), MISSING)
    places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    return np.where(known[places] == pairs, places, MISSING)


class TableIndex:
    """The rows of a table by their keys.

    Args:
        keys: the columns of the key.
        rows: the number of rows.
    """

    def __init__(self, keys: Sequence[pa.Array], rows: int) -> None:
        self._keys = KeyCodes(keys, rows)
        self._order = np.argsort(self._keys.codes, kind="stable")
        codes = self._keys.codes[self._order]
        self._starts = np.searchsorted(codes, np.arange(self._keys.count + 1))

    def pairs(self, keys: Sequence[pa.Array], rows: int) -> tuple[Longs, Longs]:
        """Pairs of a row with such a key, and a row of the table with the same key, in order of both.

        Args:
            keys: the columns of the keys.
            rows: how many there are.
        """
        codes = self._keys.of(keys, rows)
        found = np.flatnonzero(codes != MISSING)
        first, end = self._starts[codes[found]], self._starts[codes[found] + 1]
        counts = end - first
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        return np.repeat(found, counts), self._order[places]
