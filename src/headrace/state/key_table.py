"""``KeyTable``: rows by key, where all rows of a key are in the run that was written last for it.

What older runs say of that key does not count any more. So the rows of some keys are found by binary search, and only
those of keys that change are read and written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.state.runs.merge_input import by_key, lasts_of
from headrace.state.runs.merge_input import concat as concat_batches
from headrace.state.runs.merging import merge_small_runs
from headrace.state.runs.ordered import LIVE
from headrace.state.runs.run import find_all_own_rows, find_all_rows
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.state.keys import KeyColumn
    from headrace.state.runs import RunStore
    from headrace.state.runs.merge_input import MergeInput
    from headrace.state.table_layout import TableLayout

    Longs = npt.NDArray[np.int64]


class KeyTable:
    """The rows of one operator in one task: what earlier epochs left, and what this one has written.

    Args:
        runs: the state.
        layout: what it holds; its order is that of the hash, the key, and what tells rows of a key apart. A key of
            which nothing is left has a row whose column ``LIVE`` is false, where there is such a column.

    Raises:
        StateMigrationError: when something else is stored.
    """

    def __init__(self, runs: RunStore, layout: TableLayout) -> None:
        self._runs, self._schema, self._meta = runs, layout.schema, layout.meta
        layout.take_over(runs)
        self._written: list[Section] = []

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._written = []

    def stored(self) -> pa.RecordBatch:
        """All rows that were stored when the epoch began."""
        return live_rows(newest_of_keys([run.batch for run in self._runs.runs] or [self._nothing()]))

    def find(self, keys: KeyColumn) -> tuple[Longs, pa.RecordBatch]:
        """The rows of different keys, which are in order, by key; and which of the keys each of them is of."""
        # After a start at another parallelism a run may hold older rows of keys that count in another run alone.
        stored = [(run.section, partial(find_all_own_rows, run)) for run in self._runs.runs]
        written = [(section, partial(find_all_rows, section)) for section in self._written]
        missing, found, batches = np.arange(len(keys)), [np.empty(0, np.int64)], [self._nothing()]
        for section, find in reversed([*stored, *written]):
            asked = keys if len(missing) == len(keys) else keys.take(missing)
            places, rows = find(asked)
            if not len(places):
                continue
            found.append(missing[places])
            arrays = [section.take(name, rows) for name in self._schema.names]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            is_missing = np.ones(len(missing), np.bool_)
            is_missing[places] = False
            missing = missing[is_missing]
            if not len(missing):
                break
        which = np.concatenate(found)
        order = np.argsort(which, kind="stable")
        return which[order], concat_batches(batches).take(pa.array(order))

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes all rows of some keys, in the order of the layout."""
        if not batch.num_rows:
            return
        # Batches double in size from the newest to the oldest, so a row is merged a logarithmic number of times.
        while self._written and self._written[-1].rows <= 2 * batch.num_rows:
            batch = newest_of_keys([self._written.pop().batch, batch])
        self._written.append(Section(batch))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        if self._written:
            batch = newest_of_keys([section.batch for section in self._written])
            # Where nothing older is stored, a key without rows has nothing to hide.
            self._runs.append(batch if self._runs.runs else live_rows(batch), self._meta)
            self._written = []
        merge_small_runs(self._runs, now=0)

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self._schema)


def live_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without those that only say that nothing is left of a key."""
    return batch.filter(batch.column(LIVE)) if LIVE in batch.schema.names else batch


def newest_of_keys(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Of each key the rows of the last one of the batches that has any; each batch is in the order of a run."""
    if len(batches) == 1:
        return batches[0]
    whole = concat_batches(batches)
    numbers = np.repeat(np.arange(len(batches)), [batch.num_rows for batch in batches])
    order, firsts = by_key(whole)
    numbers = numbers[order]
    is_newest = numbers == numbers[lasts_of(firsts)][np.cumsum(firsts) - 1]
    return whole.take(pa.array(order[is_newest]))


def merged_by_key(given: MergeInput) -> pa.RecordBatch:
    """One run of several; a key without rows is gone where nothing older is left that it could hide."""
    merged = newest_of_keys([run.batch for run in given.runs])
    return live_rows(merged) if given.is_oldest else merged
