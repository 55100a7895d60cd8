"""Stretches of the records of a key that count windows with a slide share, and where they are kept.

A window begins with every so many records of its key. Between two places at which a window begins, or ends, all records
belong to the same windows: such a stretch is a pane. Panes are numbered: one begins where a window does, and one more
where windows end in between, if they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.stores import ADVICE, COUNT_PANES_STORE
from headrace.state.key_table import KeyTable, merged_by_key
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merging import register_merger
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

NO_PANE: Final = -1
"""In place of the number of a pane, for a key of which no records are kept."""

_KIND: Final = "count-panes"
_PANE: Final = "pane_of_key"
_RECORDS: Final = "records_of_key"
_WORDS: Final = {
    "keys": "key type",
    "size": "size in records",
    "slide": "slide in records",
    "parts": "set of aggregates",
}


@dataclass(frozen=True)
class CountPanes:
    """Windows of so many records of which one begins at every so many, and their panes.

    Attributes:
        size: how many records a window holds.
        slide: how many records after one window the next one begins.
    """

    size: int
    slide: int

    @property
    def per_slide(self) -> int:
        """How many panes there are for each beginning of a window."""
        return 2 if self.size % self.slide else 1

    @property
    def per_window(self) -> int:
        """How many panes a window has."""
        return self.size // self.slide * self.per_slide + self.per_slide - 1

    def of(self, places: Longs) -> Longs:
        """The pane of each place among the records of a key; places count from 0."""
        numbers, rest = places // self.slide, places % self.slide
        return numbers if self.per_slide == 1 else 2 * numbers + (rest >= self.size % self.slide)

    def are_in_window(self, places: Longs) -> Mask:
        """Whether any window has a record in each place: some lie between two windows."""
        return np.asarray(places % self.slide < self.size)

    def first_open(self, records: Longs) -> Longs:
        """The first window that is not full, of keys that have had so many records."""
        return np.maximum((records - self.size) // self.slide + 1, 0)


@dataclass(frozen=True)
class KeptPanes:
    """Panes of keys, by hash, key and pane.

    Attributes:
        keys: the key of each.
        panes: its number; ``NO_PANE`` in the row of a key of which nothing else is known than how many records it had.
        records: how many records the key has had.
        columns: the accumulators; null where there is no pane.
    """

    keys: KeyColumn
    panes: Longs
    records: Longs
    columns: list[pa.Array]

    def take(self, rows: Longs) -> KeptPanes:
        """The panes at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return KeptPanes(self.keys.take(rows), self.panes[rows], self.records[rows], columns)


class CountPaneStore:
    """The panes of one subtask.

    Args:
        layout: the columns.
        panes: the windows.
        store: gives the runs of a store by its name.

    Raises:
        StateMigrationError: when windows of another size or slide, or with other keys or aggregates, are stored.
    """

    def __init__(self, layout: ColumnarWindowLayout, panes: CountPanes, store: Callable[[str], RunStore]) -> None:
        _, key, *accumulators = layout.accumulator_schema
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY), pa.field(_PANE, pa.int64())]
        self._schema = pa.schema([*place, pa.field(_RECORDS, pa.int64()), *accumulators])
        about = {"keys": layout.codec.to_json(), "size": panes.size, "slide": panes.slide}
        about |= {"parts": layout.aggregators.to_json()}
        kept_as = TableLayout(
            "count windows", _KIND, self._schema, 3, about, _WORDS, advice=ADVICE, named_now=layout.named_now
        )
        self._table = KeyTable(store(COUNT_PANES_STORE), kept_as)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def stored(self) -> KeptPanes:
        """All panes that were stored when the epoch began."""
        return _kept(self._table.stored())

    def find(self, keys: KeyColumn) -> tuple[Longs, KeptPanes]:
        """The panes of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._table.find(keys)
        return found, _kept(batch)

    def write(self, panes: KeptPanes) -> None:
        """Writes all panes of some keys."""
        numbers = [pa.array(panes.panes), pa.array(panes.records)]
        arrays = [pa.array(panes.keys.hashes), panes.keys.values, *numbers, *panes.columns]
        self._table.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._table.end_epoch()


def _kept(batch: pa.RecordBatch) -> KeptPanes:
    hashes, keys, panes, records, *columns = batch.columns
    return KeptPanes(KeyColumn(keys, fixed_width(hashes)), fixed_width(panes), fixed_width(records), columns)


register_merger(_KIND, merged_by_key)
