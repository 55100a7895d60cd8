"""Windows that are stored by key: ``WindowTable``, the records that wait for it, and the operators' life cycle.

All windows of a key are in the run that was written last for the key. So a window that changes is written with the
others of its key, and only keys that have records, or a window that is due, are read and written. The due times tell
which keys to look at; one that is out of date does no harm, since no window is found then that is due.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width, gather
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.waiting import WaitingBatches
from headrace.operators.window.columnar.accumulators import ArrivalCounter, Chunk
from headrace.operators.window.lateness import LateRecords
from headrace.operators.window.stored_windows import (
    ADVICE,
    CONTINUOUS_STORE,
    COUNT_STORE,
    DUE_SUFFIX,
    SESSIONS_STORE,
    check_has_only,
)
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, sorted_by
from headrace.state.runs.layout import HASH, KEY, LIVE
from headrace.state.runs.merge_input import by_key, newest
from headrace.state.runs.merge_input import concat as concat_batches
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TableLayout, TimeSortedTable

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TableKind:
    """One kind of windows that are stored by key.

    Attributes:
        name: what they are called in errors.
        store: the store that they are in; the due times are in one of that name with a suffix.
        numbers: the columns of integers; the first one identifies the windows of a key, in their order.
        words: what the entries that a run is described by are called in errors, where they differ from other kinds.
    """

    name: str
    store: str
    numbers: tuple[str, ...]
    words: Mapping[str, str] = field(default_factory=dict)


SESSIONS: Final = TableKind("sessions", SESSIONS_STORE, ("window_end", "window_start"))
"""Open sessions: the gap after the last timestamp, and the first timestamp."""
CONTINUOUS: Final = TableKind("windows", CONTINUOUS_STORE, ("window_end", "next_firing"))
"""Windows of time that fire at intervals: the end, and when each fires next."""
COUNTS: Final = TableKind(
    "count windows",
    COUNT_STORE,
    ("pane_of_key", "records_of_key"),
    {"size": "size in records", "slide": "slide in records"},
)
"""Panes of windows of so many records: the number of the pane, and how many records the key has had."""

_KIND: Final = "windows-by-key"
_DUE_KIND: Final = "due-times"
_WORDS: Final = {
    "keys": "key type",
    "gap": "session gap in milliseconds",
    "size": "size in milliseconds",
    "slide": "slide in milliseconds (that of tumbling windows is their size)",
    "offset": "offset in milliseconds",
    "fires": "time that early results follow",
    "retracts": "accumulation mode",
    "parts": "set of aggregates",
    "discards": "accumulation mode, which discards or does not",
}


@dataclass(frozen=True)
class WindowRows:
    """Windows, or panes, of keys with what they hold: by hash, key and the first of their numbers.

    Attributes:
        keys: the key of each.
        numbers: the integers that the kind of the table names.
        columns: the accumulators; null where a window holds nothing.
    """

    keys: KeyColumn
    numbers: tuple[Longs, ...]
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def ends(self) -> Longs:
        """The first number of each, which is the end of a window of time."""
        return self.numbers[0]

    def take(self, rows: Longs) -> WindowRows:
        """The windows at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return WindowRows(self.keys.take(rows), tuple(number[rows] for number in self.numbers), columns)

    def slice(self, start: int, stop: int) -> WindowRows:
        """The windows from ``start`` up to ``stop``; nothing is copied."""
        columns = [column.slice(start, stop - start) for column in self.columns]
        return WindowRows(self.keys.slice(start, stop), tuple(number[start:stop] for number in self.numbers), columns)


class WindowTable:
    """The windows of one subtask.

    Args:
        kind: the kind of windows.
        layout: the columns.
        context: the operator.
        shape: what has to be the same of windows that are stored.
        more: columns besides the accumulators.

    Raises:
        StateMigrationError: when windows of another kind or shape, or with other keys or aggregates, are stored.
    """

    def __init__(
        self,
        kind: TableKind,
        layout: ColumnarWindowLayout,
        context: OperatorContext,
        shape: Mapping[str, Any],
        more: Sequence[pa.Field] = (),
    ) -> None:
        check_has_only(context, kind.store, kind.store + DUE_SUFFIX)
        _, key, *accumulators = layout.accumulator_schema
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY)]
        longs = [pa.field(name, pa.int64()) for name in kind.numbers]
        self._numbers = len(longs)
        self._schema = pa.schema([*place, *longs, pa.field(LIVE, pa.bool_()), *accumulators, *more])
        self._schema_of_times = pa.schema([pa.field("time", pa.int64()), *place])
        times = TableLayout(
            f"the due times of {kind.name}",
            _DUE_KIND,
            self._schema_of_times,
            3,
            {"keys": layout.codec.to_json(), **shape},
            {**_WORDS, **kind.words},
            advice=ADVICE,
        )
        about = {**times.about, "parts": layout.aggregators.to_json()}
        windows = replace(
            times, what=kind.name, kind=_KIND, schema=self._schema, about=about, named_now=layout.named_now
        )
        self._windows = KeySortedTable(context.state.store(kind.store), windows, latest_only=True)
        self._times = TimeSortedTable(context.state.store(kind.store + DUE_SUFFIX), times, newest)

    @property
    def first(self) -> int:
        """The first time at which something may be due; ``NO_TIME`` when there is none."""
        return self._times.first

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._windows.begin_epoch()
        self._times.begin_epoch()

    def first_due(self, upto: int, rows: int) -> int:
        """Up to which time about ``rows`` windows are due, of those that are due at ``upto`` or before."""
        if self._times.first > upto:
            return upto
        batches = self._times.up_to(upto)
        if sum(batch.num_rows for batch in batches) <= rows:
            return upto
        times = np.concatenate([fixed_width(batch.column(0)) for batch in batches])
        return int(np.partition(times, rows)[rows])

    def take_due(self, upto: int) -> KeyColumn | None:
        """The keys of which something may be due at ``upto`` or before, each once at least; None for no keys."""
        if self._times.first > upto:
            return None
        batches = self._times.up_to(upto)
        keys = [KeyColumn(batch.column(KEY), fixed_width(batch.column(HASH))) for batch in batches]
        self._times.forget(upto)
        return KeyColumn.concat(keys) if keys else None

    def stored(self) -> WindowRows:
        """All windows that were stored when the epoch began."""
        return self._rows(self._windows.stored())

    def find(self, keys: KeyColumn) -> tuple[Longs, WindowRows]:
        """The windows of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._windows.find(keys)
        is_live = batch.column(LIVE)
        if is_live.false_count:
            found, batch = found[fixed_width(is_live) != 0], batch.filter(is_live)
        return found, self._rows(batch)

    def write(
        self,
        windows: WindowRows,
        due_times: Longs | None = None,
        is_new_time: Mask | None = None,
        keys_without: KeyColumn | None = None,
    ) -> None:
        """Writes all windows of some keys.

        Args:
            windows: the windows, in the order of the table.
            due_times: when something is due for each; None where nothing ever is.
            is_new_time: which of these times were not written before.
            keys_without: keys that have no windows any more, but had some.
        """
        batch = self._batch(windows, True)
        if keys_without is not None and len(keys_without):
            number = np.zeros(len(keys_without), np.int64)
            nulls = [pa.nulls(len(keys_without), column.type) for column in windows.columns]
            nothing = WindowRows(keys_without, (number,) * len(windows.numbers), nulls)
            batch = concat_batches([batch, self._batch(nothing, False)])
            order, _ = by_key(batch)
            batch = batch.take(pa.array(order))
        self._windows.append(batch)
        if due_times is not None and is_new_time is not None:
            self._write_due(windows.keys, due_times, np.flatnonzero(is_new_time))

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._windows.end_epoch()
        self._times.end_epoch()

    def _write_due(self, keys: KeyColumn, times: Longs, rows: Longs) -> None:
        rows = rows[sorted_by(np.zeros(len(rows), np.int64), times[rows])]
        arrays = [pa.array(times[rows]), pa.array(keys.hashes[rows]), keys.take(rows).values]
        self._times.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema_of_times))

    def _rows(self, batch: pa.RecordBatch) -> WindowRows:
        hashes, keys, *columns = batch.columns
        numbers = tuple(fixed_width(column) for column in columns[: self._numbers])
        return WindowRows(KeyColumn(keys, fixed_width(hashes)), numbers, columns[self._numbers + 1 :])

    def _batch(self, windows: WindowRows, is_live: bool) -> pa.RecordBatch:
        live = pa.array(np.full(len(windows), is_live))
        places = [pa.array(windows.keys.hashes), windows.keys.values, *map(pa.array, windows.numbers), live]
        return pa.RecordBatch.from_arrays([*places, *windows.columns], schema=self._schema)


@dataclass(frozen=True)
class ActiveKeys:
    """The keys that records are of, or windows that may be due.

    Attributes:
        chunk: the records; None when there are none.
        keys: the keys, each once, by hash and key.
        of_records: which of them each record has.
    """

    chunk: Chunk | None
    keys: KeyColumn
    of_records: Longs

    @staticmethod
    def of(chunk: Chunk | None, due: KeyColumn | None) -> ActiveKeys | None:
        """The keys of some records, and some others; None when there are none."""
        parts = [] if chunk is None else [KeyColumn(chunk.keys, chunk.hashes)]
        if due is not None:
            parts.append(due)
        if not parts:
            return None
        keys = KeyColumn.concat(parts)
        groups = group_keys(keys.hashes, keys.values)
        records = 0 if chunk is None else len(chunk)
        return ActiveKeys(chunk, keys.take(groups.first_rows), groups.numbers[:records])


register_key_sorted_merger(_KIND, latest_only=True)
register_ordered_merger(_DUE_KIND, newest)


@dataclass(frozen=True)
class ArrivedRecords:
    """Records in the order in which they came; there is at least one.

    Attributes:
        batch: the records.
        chunk: what the aggregates need of them; as their windows are not known yet, all have the end 0.
    """

    batch: KeyedBatch
    chunk: Chunk

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def timestamps(self) -> Longs:
        """Their timestamps."""
        return self.batch.timestamps

    @property
    def watermarks(self) -> Longs:
        """The watermark that each meets."""
        return self.batch.watermarks

    def slice(self, start: int, stop: int) -> ArrivedRecords:
        """The records from ``start`` up to ``stop``."""
        return ArrivedRecords(self.batch.slice(start, stop), self.chunk.slice(start, stop))

    def take(self, rows: Longs) -> ArrivedRecords:
        """The records at ``rows``, in that order."""
        return ArrivedRecords(self.batch.take(rows), self.chunk.take(rows))

    @staticmethod
    def taken(
        waiting: WaitingBatches[KeyedBatch],
        layout: ColumnarWindowLayout,
        arrivals: ArrivalCounter,
        context: OperatorContext,
    ) -> ArrivedRecords | None:
        """All records that wait, which do so no longer; None when there are none.

        Raises:
            UserFunctionError: when an expression has no value for a record.
        """
        batch = waiting.take().of(0)
        if batch is None:
            return None
        return ArrivedRecords(batch, Chunk.of(batch, layout.inputs_of(batch, context), arrivals.next(len(batch))))


class KeyedWindowOperator(KeyedOperator):
    """Built-in aggregates over windows that are stored by key.

    To find the windows of a key and to write them costs much the same for one record as for many. So records wait until
    event time advances at the end of a stretch of input, or until there are many. Then the windows of all of them are
    found at once, as if the records had come one by one: what a window emits, and in which order, does not depend on
    how many wait. A subclass decides which windows records are in, and when windows fire.

    Args:
        layout: the aggregates and the columns.
        most_rows: how many records wait at most.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        most_rows: int,
        lateness: int = 0,
        late_tag: str | None = None,
    ) -> None:
        super().__init__()
        self.user_code = layout.aggregators.user_code
        self._layout = layout
        self._aggregators = layout.aggregators
        self._lateness = lateness
        self._late = LateRecords(self, lateness, late_tag)
        self._waiting: WaitingBatches[KeyedBatch] = WaitingBatches(most_rows, are_stored=True)
        self._watermark = MIN_WATERMARK

    def restore_state(self, context: OperatorContext) -> None:
        self._table = self._open_table(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._waiting.forget()
        self._arrivals = ArrivalCounter(scope.epoch)
        self._table.begin_epoch()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        self._check(batch)
        if self._waiting.add(0, batch):
            self._advance(batch.last_watermark, self._arrived())

    def advance_watermark(self, watermark: int) -> None:
        watermark = max(watermark, self._watermark)
        arrived = self._arrived()
        if arrived is not None or watermark > self._watermark:
            self._advance(watermark, arrived)
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._table.end_epoch()

    def _arrived(self) -> ArrivedRecords | None:
        return ArrivedRecords.taken(self._waiting, self._layout, self._arrivals, self.context)

    @abstractmethod
    def _open_table(self, context: OperatorContext) -> WindowTable:
        """The windows in state."""

    def _check(self, batch: KeyedBatch) -> None:
        """Refuses records that cannot be put into windows, and sends those away that are too late for all of them."""

    @abstractmethod
    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        """Puts records into their windows, brings event time to a watermark, and fires what is due on the way."""
