"""When partial matches of keys time out: the keys that have to be looked at then, although no event of theirs comes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.base import OperatorContext
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merge_input import NO_TIME, newest
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TableLayout, TimeSortedTable

Longs = npt.NDArray[np.int64]

STORE: Final = "pattern-timers"

_KIND: Final = "pattern-timers"


class PatternTimers:
    """The timers of the keys of one subtask. As in Flink, one stays when its partial match has ended.

    Args:
        context: the operator.
        name: the name of the store.
        domain: in which time they are, as state says it.
    """

    def __init__(self, context: OperatorContext, name: str, domain: str) -> None:
        codec = context.state.keyed.codec
        self._schema = pa.schema({"time": pa.int64(), HASH: pa.uint64(), KEY: codec.arrow_type})
        about = {"keys": codec.to_json(), "domain": domain}
        words = {"keys": "key type", "domain": "kind of time"}
        layout = TableLayout("the timers of a pattern", _KIND, self._schema, 3, about, words)
        self._table = TimeSortedTable(context.state.store(name), layout, newest)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what is new into state."""
        self._table.end_epoch()

    @property
    def first(self) -> int | None:
        """The time of the first timer; None when there is none."""
        first = self._table.first
        return None if first == NO_TIME else first

    def take_due(self, up_to: int) -> tuple[Longs, KeyColumn] | None:
        """The times and keys of the timers that are due; None where there are none."""
        if self._table.first > up_to:
            return None
        batches = self._table.up_to(up_to)
        self._table.forget(up_to)
        if not batches:
            return None
        times = np.concatenate([batch.column(0).to_numpy() for batch in batches])
        return times, KeyColumn.concat([KeyColumn(batch.column(2), batch.column(1).to_numpy()) for batch in batches])

    def register(self, times: Longs, keys: KeyColumn) -> None:
        """Registers timers."""
        if not len(times):
            return
        groups = group_rows(times, keys.hashes, keys.values)
        rows = groups.first_rows
        own = keys.take(rows)
        columns = [pa.array(times[rows]), pa.array(own.hashes), own.values]
        self._table.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))


register_ordered_merger(_KIND, newest)
