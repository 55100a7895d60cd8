"""Mini-batches: many records of a key make one change of its result.

Keys leave a mini-batch in the order of a hash map of Java over binary rows, as in Flink. So the order of changes, and
which records of two phases meet in one mini-batch, are those of Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.arrays import codes_of
from headrace.operators.binary_rows import Words, buckets, hashes_of

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bundle:
    """One mini-batch.

    Attributes:
        records: the records, key after key in parts as they are sent.
        places: at which place the key of each leaves.
    """

    records: Longs
    places: Longs


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Settings of a mini-batch: the records that are bundled before they are aggregated.

    Attributes:
        size: the maximum number of records in a bundle.
        has_two_phases: whether senders aggregate bundles first, and receivers merge the accumulators.
        key_columns: the positions of the columns of the key.
    """

    size: int
    has_two_phases: bool
    key_columns: tuple[int, ...]

    def bundles(self, columns: pa.RecordBatch) -> list[Bundle]:
        """The mini-batches of records."""
        keys = [columns.column(index) for index in self.key_columns]
        names = [str(place) for place in range(len(keys))]
        count = columns.num_rows
        numbers = codes_of(pa.StructArray.from_arrays(keys, names)) if keys else np.zeros(count, np.int64)
        hashes = _hashes_by_number(keys, numbers)
        groups = [np.arange(count)[start : start + self.size] for start in range(0, count, self.size)]
        if self.has_two_phases:
            groups = self._of_receivers(groups, numbers, hashes)
        return [Bundle(group, _places(numbers[group], hashes)) for group in groups]

    def _of_receivers(self, groups: list[Longs], numbers: Longs, hashes: Words) -> list[Longs]:
        sent: list[Longs] = []
        for group in groups:
            mine = numbers[group]
            sent += [group[mine == key] for key in ordered_keys(mine, hashes).tolist()]
        return [np.concatenate(sent[start : start + self.size]) for start in range(0, len(sent), self.size)]


def ordered_keys(keys: Longs, hashes: Words) -> Longs:
    """The different keys of a mini-batch in the order in which they leave a hash map.

    Args:
        keys: the key of each record, as a number.
        hashes: the hash of each number.
    """
    different, firsts = np.unique(keys, return_index=True)
    places = buckets(hashes[different], np.array([len(different)]))
    found: Longs = different[np.lexsort((firsts, places))]
    return found


def _places(keys: Longs, hashes: Words) -> Longs:
    """The position of each record's key in the order in which keys are emitted."""
    places = np.zeros(len(hashes), np.int64)
    ordered = ordered_keys(keys, hashes)
    places[ordered] = np.arange(len(ordered))
    found: Longs = places[keys]
    return found


def _hashes_by_number(keys: Sequence[pa.Array], numbers: Longs) -> Words:
    different, firsts = np.unique(numbers, return_index=True)
    found = np.zeros(int(numbers.max(initial=0)) + 1, np.uint32)
    found[different] = hashes_of([key.take(pa.array(firsts)) for key in keys], len(firsts))
    return found
