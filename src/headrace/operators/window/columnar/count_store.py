"""Where count windows are kept: how many records each key has had, and what its window holds that is not full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.stores import ADVICE, COUNT_STORE
from headrace.state.key_table import KeyTable, merged_by_key
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merging import register_merger
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]

_KIND: Final = "count-windows"
_RECORDS: Final = "records_of_key"
_WORDS: Final = {"keys": "key type", "size": "size in records", "parts": "set of aggregates"}


@dataclass(frozen=True)
class CountedKeys:
    """Keys that have had records.

    Attributes:
        keys: the keys, by hash and key.
        records: how many records each has had.
        columns: the accumulators of the window that is not full; null where the last one is.
    """

    keys: KeyColumn
    records: Longs
    columns: list[pa.Array]

    def take(self, rows: Longs) -> CountedKeys:
        """The keys at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return CountedKeys(self.keys.take(rows), self.records[rows], columns)


class CountStore:
    """The count windows of one subtask.

    Args:
        layout: the columns.
        size: how many records a window holds.
        store: gives the runs of a store by its name.

    Raises:
        StateMigrationError: when windows of another size, or with other keys or aggregates, are stored.
    """

    def __init__(self, layout: ColumnarWindowLayout, size: int, store: Callable[[str], RunStore]) -> None:
        _, key, *accumulators = layout.accumulator_schema
        columns = [pa.field(HASH, pa.uint64()), key.with_name(KEY), pa.field(_RECORDS, pa.int64()), *accumulators]
        self._schema = pa.schema(columns)
        about = {"keys": layout.codec.to_json(), "size": size, "parts": layout.aggregators.to_json()}
        kept_as = TableLayout(
            "count windows", _KIND, self._schema, 2, about, _WORDS, advice=ADVICE, named_now=layout.named_now
        )
        self._table = KeyTable(store(COUNT_STORE), kept_as)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def stored(self) -> CountedKeys:
        """All keys that were stored when the epoch began."""
        return _counted(self._table.stored())

    def find(self, keys: KeyColumn) -> tuple[Longs, CountedKeys]:
        """Those of different keys, which are in order, that have had records, and which of them each is."""
        found, batch = self._table.find(keys)
        return found, _counted(batch)

    def write(self, counted: CountedKeys) -> None:
        """Writes what has become of some keys."""
        keys = counted.keys
        arrays = [pa.array(keys.hashes), keys.values, pa.array(counted.records), *counted.columns]
        self._table.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._table.end_epoch()


def _counted(batch: pa.RecordBatch) -> CountedKeys:
    hashes, keys, records, *columns = batch.columns
    return CountedKeys(KeyColumn(keys, fixed_width(hashes)), fixed_width(records), columns)


register_merger(_KIND, merged_by_key)
