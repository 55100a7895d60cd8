"""``LookupMaterializeOperator``: what lookup joins found of rows that may be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.operators.changelog.keyed_changes import Arrived, Changes, KeyedChangesOperator
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]


class LookupMaterializeOperator(KeyedChangesOperator):
    """Keeps what was found of the last row of each key, and takes that back with the row.

    The table may have other rows by then, so that a lookup for the retraction would take back what was never emitted.
    A retraction of a row of which nothing is kept is one of a row of which nothing was found.

    Args:
        input_type: the type of the joined rows, with the number of each among those of one row; null for a row of
            which nothing was found, or that was not looked up since it takes another one back.
        output_type: the type of the joined rows without the number.
        codec: the codec of the keys.
        width: the number of columns that are not looked up, which come first.
        keeps_empty: whether a row of which nothing was found is emitted.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "looked-up-rows", "what was found of rows"

    def __init__(
        self,
        input_type: TypeInformation,
        output_type: TypeInformation,
        codec: KeyCodec,
        *,
        width: int,
        keeps_empty: bool,
        ttl: int = 0,
    ) -> None:
        super().__init__(input_type, output_type, codec, ttl=ttl)
        self._width, self._keeps_empty = width, keeps_empty

    @property
    def state_fields(self) -> list[pa.Field]:
        return list(schema_of(self._input_type))[self._width :]

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        sequence, stored = arrived.sequence, len(arrived.stored)
        numbers = self._numbers(arrived)[sequence]
        records = sequence - stored
        takes_back = np.zeros(len(sequence), np.bool_)
        takes_back[records >= 0] = arrived.takes_back[records[records >= 0]]
        starts = np.flatnonzero((numbers <= 1) | (np.diff(arrived.of_keys, prepend=-1) != 0))  # of what one row gave
        ends = np.append(starts[1:], len(sequence))
        is_found, is_taken = numbers[starts] > 0, takes_back[starts]
        has_before = np.append(False, np.diff(arrived.of_keys[starts]) == 0)
        takes_found = is_taken & has_before & np.append(False, (is_found & ~is_taken)[:-1])
        emits = ~is_taken & (is_found | self._keeps_empty) | (is_taken & ~takes_found & self._keeps_empty)
        own = _places(starts[emits], ends[emits])
        before = np.flatnonzero(takes_found) - 1
        taken = _places(starts[before], ends[before])
        causes = np.repeat(starts[before + 1], ends[before] - starts[before])
        places, by = np.concatenate((own, taken)), np.concatenate((own, causes))
        there = records[by] >= 0
        found = Changes(sequence[places[there]], self._kinds(arrived, records[by[there]]), records[by[there]])
        is_last = np.append(np.diff(arrived.of_keys[starts]) != 0, True)
        left = is_last & is_found & ~is_taken
        return found.take(in_order(found.records)), sequence[_places(starts[left], ends[left])]

    def _numbers(self, arrived: Arrived) -> Longs:
        mine = [arrived.batch.columns.columns[-1]]
        parts = [arrived.stored.rows.columns[-1], *mine] if len(arrived.stored) else mine
        return np.concatenate([np.asarray(part.fill_null(0)) for part in parts])

    def _kinds(self, arrived: Arrived, records: Longs) -> npt.NDArray[np.int8]:
        kinds = arrived.batch.kinds
        return np.zeros(len(records), np.int8) if kinds is None else kinds[records]

    def _found(self, arrived: Arrived, rows: Longs) -> list[pa.Array]:
        """The columns that the lookup has found for rows, and their numbers."""
        mine = arrived.batch.columns.columns[self._width :]
        if not len(arrived.stored):
            return [gather(column, rows) for column in mine]
        pairs = zip(arrived.stored.rows.columns, mine, strict=True)
        return [gather(pa.concat_arrays(list(pair)), rows) for pair in pairs]

    def remembered(self, arrived: Arrived, left: Longs) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._found(arrived, left), schema=pa.schema(self.state_fields))

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if not len(found.rows):
            return
        given = [gather(column, found.records) for column in arrived.batch.columns.columns[: self._width]]
        columns = [*given, *self._found(arrived, found.rows)[:-1]]
        times = arrived.batch.timestamps[found.records], arrived.batch.watermarks[found.records]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        kinds = found.kinds if found.kinds.any() else None
        self.output.emit(Batch(self._output_type, *times, columns=made, kinds=kinds))


def _places(starts: Longs, ends: Longs) -> Longs:
    """All positions of some ranges, one range after the other."""
    counts = ends - starts
    found: Longs = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return found
