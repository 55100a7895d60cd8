"""How many matches of each key there have been, which ``MATCH_NUMBER()`` tells."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.operators.base import OperatorContext
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows
from headrace.state.keys import KeyColumn

Longs = npt.NDArray[np.int64]

STORE: Final = "match-numbers"

_SCHEMA: Final = pa.schema({"count": pa.int64()})


class MatchNumbers:
    """The numbers of the matches of the keys of one subtask.

    Args:
        context: the operator.
    """

    def __init__(self, context: OperatorContext) -> None:
        codec = context.state.keyed.codec
        self._rows = RowsOfKeys(context, STORE, "the numbers of matches", codec, _SCHEMA)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch(0)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._rows.end_epoch()

    def count(self, keys: KeyColumn, positions: Longs) -> Longs:
        """Return the numbers of more matches.

        Args:
            keys: different keys, in the order of hash and key.
            positions: the key of each match, in the order in which those of a key are counted.
        """
        with_matches, of_matches, counts = np.unique(positions, return_inverse=True, return_counts=True)
        own = keys.take(with_matches)
        found = self._rows.find(own)
        before = np.zeros(len(own), np.int64)
        before[found.of_keys] = fixed_width(found.rows.column(0))
        by_key = np.argsort(of_matches, kind="stable")
        within = np.empty(len(positions), np.int64)
        within[by_key] = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = pa.RecordBatch.from_arrays([pa.array(before + counts)], schema=_SCHEMA)
        self._rows.write(own, StoredRows(np.arange(len(own)), rows), np.empty(0, np.int64))
        numbers: Longs = before[of_matches] + within + 1
        return numbers
