"""Where open sessions are kept: by key, and their ends in the order of time.

The table by key has all open sessions of a key in the run that was written last for the key: what older runs say of
that key does not count any more. So the sessions of some keys are found by binary search, and a session that grows, or
is merged with another one, is written with the others of its key. The ends tell which sessions are due; one whose
session has grown since is passed over, as no session with that end is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.merging import SESSION_ENDS_STORE, SESSIONS_STORE
from headrace.operators.window.sessions import sorted_by
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedLayout, OrderedTable
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.lookup import find_all_rows
from headrace.state.runs.merge_input import MergeInput, by_key, lasts_of
from headrace.state.runs.merge_input import concat as concat_batches
from headrace.state.runs.merging import merge_small_runs, register_merger, register_ordered_merger
from headrace.state.runs.ordered import LIVE, newest
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.operators.window.layout import WindowLayout
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

    def __init__(self, layout: WindowLayout, gap: int, store: Callable[[str], RunStore]) -> None:
        end, key, *accumulators = layout.accumulator_schema
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY)]
        columns = [*place, end, pa.field(_START, pa.int64()), pa.field(LIVE, pa.bool_()), *accumulators]
        self._schema = pa.schema(columns)
        keys = {"keys": layout.codec.to_json(), "gap": gap}
        about = keys | {"parts": layout.aggregators.to_json()}
        by_key = OrderedLayout("sessions", _SESSIONS_KIND, self._schema, 3, about, _WORDS)
        self._runs, self._meta = store(SESSIONS_STORE), by_key.meta
        for run in self._runs.runs:
            by_key.check(run)
        self._ends_schema = pa.schema([end, *place])
        of_ends = OrderedLayout("the ends of sessions", _ENDS_KIND, self._ends_schema, 3, keys, _WORDS)
        self._ends = OrderedTable(store(SESSION_ENDS_STORE), of_ends, newest)
        self._written: list[Section] = []

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._ends.begin_epoch()
        self._written = []

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
        batch = newest_of_keys([run.batch for run in self._runs.runs] or [_nothing(self._schema)])
        hashes, keys, ends, starts, _, *columns = batch.filter(batch.column(LIVE)).columns
        found = KeyColumn(keys, fixed_width(hashes))
        return SessionRows(found, fixed_width(starts), fixed_width(ends), columns)

    def find(self, keys: KeyColumn) -> tuple[Longs, SessionRows]:
        """The open sessions of different keys, which are in order, and which of the keys each of them is of."""
        sections = [*(run.section for run in self._runs.runs), *self._written]
        missing, found, batches = np.arange(len(keys)), [np.empty(0, np.int64)], [_nothing(self._schema)]
        for section in reversed(sections):
            asked = keys if len(missing) == len(keys) else keys.take(missing)
            places, rows = find_all_rows(section, asked)
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
        return self._in_order(keys, np.concatenate(found), batches)

    def _in_order(self, keys: KeyColumn, found: Longs, batches: Sequence[pa.RecordBatch]) -> tuple[Longs, SessionRows]:
        """The rows of open sessions, by key and end; a key without any has a row that is not live."""
        _, _, ends, starts, live, *columns = concat_batches(batches).columns
        order = sorted_by(found, np.arange(len(found)))
        order = order[fixed_width(live)[order] != 0]
        found = found[order]
        columns = [gather(column, order) for column in columns]
        return found, SessionRows(keys.take(found), fixed_width(starts)[order], fixed_width(ends)[order], columns)

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
        # Batches double in size from the newest to the oldest, so a row is merged a logarithmic number of times.
        while self._written and self._written[-1].rows <= 2 * batch.num_rows:
            batch = newest_of_keys([self._written.pop().batch, batch])
        self._written.append(Section(batch))
        rows = np.flatnonzero(is_new_end)
        rows = rows[sorted_by(np.zeros(len(rows), np.int64), sessions.ends[rows])]
        keys = sessions.keys.take(rows)
        arrays = [pa.array(sessions.ends[rows]), pa.array(keys.hashes), keys.values]
        self._ends.append(pa.RecordBatch.from_arrays(arrays, schema=self._ends_schema))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        if self._written:
            batch = newest_of_keys([section.batch for section in self._written])
            # Where nothing older is stored, a key without sessions has nothing to hide.
            self._runs.append(batch if self._runs.runs else batch.filter(batch.column(LIVE)), self._meta)
            self._written = []
        merge_small_runs(self._runs, now=0)
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


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


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


def _merged(given: MergeInput) -> pa.RecordBatch:
    """One run of several; a key without sessions has no row where nothing older is left that it could hide."""
    merged = newest_of_keys([run.batch for run in given.runs])
    return merged.filter(merged.column(LIVE)) if given.is_oldest else merged


register_merger(_SESSIONS_KIND, _merged)
register_ordered_merger(_ENDS_KIND, newest)
