"""Where open sessions are kept: by key, and their ends in the order of time.

The table by key has all open sessions of a key in the run that was written last for the key. So a session that grows,
or is merged with another one, is written with the others of its key. The ends tell which sessions are due; one whose
session has grown since is passed over, as no session with that end is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.columnar.sessions.find_sessions import sorted_by
from headrace.operators.window.stores import SESSION_ENDS_STORE, SESSIONS_STORE
from headrace.state.key_table import KeyTable, merged_by_key
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedLayout, OrderedTable
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merge_input import by_key
from headrace.state.runs.merge_input import concat as concat_batches
from headrace.state.runs.merging import register_merger, register_ordered_merger
from headrace.state.runs.ordered import LIVE, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]
    Hashes = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]

_SESSIONS_KIND: Final = "sessions"
_ENDS_KIND: Final = "session-ends"
_END: Final = "window_end"
_START: Final = "window_start"
_WORDS: Final = {"keys": "key type", "gap": "session gap in milliseconds", "parts": "set of aggregates"}


@dataclass(frozen=True)
class SessionRows:
    """Sessions and what they hold, by hash, key and end.

    Attributes:
        keys: the key of each.
        starts: the first timestamp of each.
        ends: the gap after the last timestamp of each.
        columns: the columns of the aggregators.
    """

    keys: KeyColumn
    starts: Longs
    ends: Longs
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, rows: Longs) -> SessionRows:
        """The sessions at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return SessionRows(self.keys.take(rows), self.starts[rows], self.ends[rows], columns)


class SessionStore:
    """The open sessions of one subtask.

    Args:
        layout: the columns.
        gap: how long after its last record a session ends, in milliseconds.
        store: gives the runs of a store by its name.

    Raises:
        StateMigrationError: when sessions of another kind are stored.
    """

    def __init__(self, layout: ColumnarWindowLayout, gap: int, store: Callable[[str], RunStore]) -> None:
        end, key, *accumulators = layout.accumulator_schema
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY)]
        columns = [*place, end, pa.field(_START, pa.int64()), pa.field(LIVE, pa.bool_()), *accumulators]
        self._schema = pa.schema(columns)
        keys = {"keys": layout.codec.to_json(), "gap": gap}
        about = keys | {"parts": layout.aggregators.to_json()}
        sessions = OrderedLayout("sessions", _SESSIONS_KIND, self._schema, 3, about, _WORDS)
        self._sessions = KeyTable(store(SESSIONS_STORE), sessions)
        self._ends_schema = pa.schema([end, *place])
        of_ends = OrderedLayout("the ends of sessions", _ENDS_KIND, self._ends_schema, 3, keys, _WORDS)
        self._ends = OrderedTable(store(SESSION_ENDS_STORE), of_ends, newest)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._sessions.begin_epoch()
        self._ends.begin_epoch()

    def first_due(self, upto: int, rows: int) -> int:
        """Up to which end about ``rows`` sessions are due, of those with an end not above ``upto``."""
        if self._ends.first > upto:
            return upto
        batches = self._ends.up_to(upto)
        if sum(batch.num_rows for batch in batches) <= rows:
            return upto
        ends = np.concatenate([fixed_width(batch.column(_END)) for batch in batches])
        return int(np.partition(ends, rows)[rows])

    def take_due(self, upto: int) -> KeyColumn | None:
        """The keys that may have sessions with an end not above ``upto``, each once at least; None when none has."""
        if self._ends.first > upto:
            return None
        batches = self._ends.up_to(upto)
        keys = [KeyColumn(batch.column(KEY), fixed_width(batch.column(HASH))) for batch in batches]
        self._ends.forget(upto)
        return KeyColumn.concat(keys) if keys else None

    def all_open(self) -> SessionRows:
        """All open sessions that were stored when the epoch began."""
        hashes, keys, ends, starts, _, *columns = self._sessions.stored().columns
        found = KeyColumn(keys, fixed_width(hashes))
        return SessionRows(found, fixed_width(starts), fixed_width(ends), columns)

    def find(self, keys: KeyColumn) -> tuple[Longs, SessionRows]:
        """The open sessions of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._sessions.find(keys)
        is_live = batch.column(LIVE)
        if is_live.false_count:
            found, batch = found[fixed_width(is_live) != 0], batch.filter(is_live)
        _, _, ends, starts, _, *columns = batch.columns
        return found, SessionRows(keys.take(found), fixed_width(starts), fixed_width(ends), columns)

    def write(self, sessions: SessionRows, is_new_end: Mask, keys_without: KeyColumn) -> None:
        """Writes all open sessions of some keys.

        Args:
            sessions: them, by hash, key and end.
            is_new_end: which of them have an end that they were not written with before.
            keys_without: keys that have no open sessions any more, but had some.
        """
        batch = self._batch(sessions, keys_without)
        if not batch.num_rows:
            return
        self._sessions.write(batch)
        rows = np.flatnonzero(is_new_end)
        rows = rows[sorted_by(np.zeros(len(rows), np.int64), sessions.ends[rows])]
        keys = sessions.keys.take(rows)
        arrays = [pa.array(sessions.ends[rows]), pa.array(keys.hashes), keys.values]
        self._ends.append(pa.RecordBatch.from_arrays(arrays, schema=self._ends_schema))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._sessions.end_epoch()
        self._ends.end_epoch()

    def _batch(self, sessions: SessionRows, without: KeyColumn) -> pa.RecordBatch:
        """Sessions, and rows that are not live, in the order of a run."""
        live = self._arrays(sessions.keys, sessions.ends, sessions.starts, True, sessions.columns)
        if not len(without):
            return pa.RecordBatch.from_arrays(live, schema=self._schema)
        zeros = np.zeros(len(without), np.int64)
        nulls = [pa.nulls(len(without), column.type) for column in sessions.columns]
        gone = self._arrays(without, zeros, zeros, False, nulls)
        batches = [pa.RecordBatch.from_arrays(arrays, schema=self._schema) for arrays in (live, gone)]
        both = concat_batches(batches)
        order, _ = by_key(both)
        return both.take(pa.array(order))

    @staticmethod
    def _arrays(
        keys: KeyColumn, ends: Longs, starts: Longs, is_live: bool, columns: Sequence[pa.Array]
    ) -> list[pa.Array]:
        live = pa.array(np.full(len(keys), is_live))
        return [pa.array(keys.hashes), keys.values, pa.array(ends), pa.array(starts), live, *columns]


register_merger(_SESSIONS_KIND, merged_by_key)
register_ordered_merger(_ENDS_KIND, newest)
