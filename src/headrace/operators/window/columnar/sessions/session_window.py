"""Session windows with built-in aggregates, column by column.

Records wait until the watermark goes on at the end of a stretch of input, or until there are many. Then the sessions
of all of them are found at once, as if they had come one by one (:mod:`.find_sessions`). Of the open sessions only
those of keys are read and written that have records, or a session that may be due. What is emitted, and in which order,
is what handling the records one by one gives: by moment of firing, and within one moment by (window end, hash of key,
key).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.firing import FIRED_ROWS, stamps_of
from headrace.operators.window.columnar.keyed_operator import KeyedWindowOperator
from headrace.operators.window.columnar.sessions.find_sessions import (
    NO_SESSION,
    ArrivedTimes,
    FoundSessions,
    Spans,
    find_sessions,
)
from headrace.operators.window.columnar.window_table import SESSIONS, TouchedKeys, WindowRows, WindowTable
from headrace.operators.window.held_windows import held_times
from headrace.operators.window.lateness import check_timestamps, passed_end
from headrace.state.runs.grouping import Groups, Segments, sorted_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.waiting import ArrivedRecords
    from headrace.operators.window.held_windows import HeldWindow
    from headrace.state.keys import KeyColumn

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_WAITING_ROWS = 1 << 19
"""So many records wait at most; the more there are, the less often a session is read and written."""

_DUE_ROWS = 1 << 19
"""About so many sessions are read at a time when more are due, as at the end of the input."""


class SessionWindowOperator(KeyedWindowOperator):
    """Built-in aggregates over sessions of event time with one gap for all records.

    Args:
        layout: the aggregates and the columns.
        gap: how long after its last record a session ends, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        lateness: how long after its end a session still takes records, in milliseconds.
    """

    def __init__(self, layout: ColumnarWindowLayout, gap: int, late_tag: str | None = None, lateness: int = 0) -> None:
        super().__init__(layout, _WAITING_ROWS, lateness, late_tag, keeps_batches=late_tag is not None)
        self._is_ordered = layout.is_ordered
        self._gap = gap
        self._passed = MIN_WATERMARK

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[HeldWindow]:
        """What sessions hold; of an operator that is not open. See :class:`.held_windows.HoldsWindows`."""
        found = self._open_table(context).stored()
        found = found.take(np.flatnonzero(self._held_until(found.ends) > passed_end(watermark)))
        return held_times(self._layout, found.keys.values, found.numbers[1], found.ends, found.columns)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._passed = passed_end(scope.watermark)

    def _check(self, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, self._gap)

    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        upto = passed_end(watermark)
        if self._table.first_due(upto, _DUE_ROWS) < upto:
            if arrived is not None:
                # The sessions of their keys are due when they are, however many others there are.
                reached = arrived.last_watermark
                self._add_and_fire(arrived, reached, passed_end(reached))
                self._watermark, self._passed, arrived = reached, passed_end(reached), None
            while (first := self._table.first_due(upto, _DUE_ROWS)) < upto:
                self._add_and_fire(None, watermark, first)
                self._passed = max(first, self._passed)
        self._add_and_fire(arrived, watermark, upto)
        self._watermark, self._passed = watermark, upto

    def _add_and_fire(self, arrived: ArrivedRecords | None, watermark: int, upto: int) -> None:
        """Adds records to sessions, and fires those with an end not above ``upto``, on the way to a watermark."""
        touched = TouchedKeys.of(None if arrived is None else arrived.chunk, self._table.take_due(upto))
        if touched is None:
            return
        which, opened, gone = self._open_of(touched.keys)
        records = arrived_times(touched, arrived)
        found = find_sessions(self._gap, records, Spans(which, opened.numbers[1], opened.ends))
        self._send_away(arrived, found.of_records == NO_SESSION)
        rows = self._contents(touched, found, opened)
        is_due = rows.ends <= upto
        self._fire(rows, is_due, np.append(records.watermarks, watermark))
        self._write(touched, found, opened, rows, is_due, gone)

    def _open_of(self, keys: KeyColumn) -> tuple[Longs, WindowRows, Longs]:
        """The sessions of different keys that still take records, which of the keys each is of, and keys of others."""
        which, opened = self._table.find(keys)
        is_there = self._goes(opened.ends) > self._passed
        if is_there.all():
            return which, opened, which[:0]
        return which[is_there], opened.take(np.flatnonzero(is_there)), which[~is_there]

    def _open_table(self, context: OperatorContext) -> WindowTable:
        return WindowTable(SESSIONS, self._layout, context, {"gap": self._gap})

    def _held_until(self, ends: Longs) -> Longs:
        """The ends that event time has to pass for sessions to hold nothing any more."""
        return self._goes(ends)

    def _goes(self, ends: Longs) -> Longs:
        """The ends that event time has to pass for sessions to go."""
        if not self._lateness:
            return ends
        return np.where(ends > MAX_WATERMARK - self._lateness, MAX_WATERMARK, ends + self._lateness)

    def _send_away(self, arrived: ArrivedRecords | None, is_late: Mask) -> None:
        if self._late_tag is None:
            self._late.drop(int(np.count_nonzero(is_late)))
            return
        first = 0
        for batch in () if arrived is None else arrived.batches:
            self._late.send_away(batch, is_late[first : first + len(batch)])
            first += len(batch)

    def _contents(self, touched: TouchedKeys, found: FoundSessions, opened: WindowRows) -> WindowRows:
        """The sessions, each with the accumulators of its records and of the open sessions that it is made of."""
        sessions, columns = found.sessions, opened.columns
        parts = found.of_open
        rows = found.by_session
        if touched.chunk is not None and len(rows):
            if self._is_ordered:
                rows = rows[sorted_by(found.of_records[rows], rows)]
            numbers = found.of_records[rows]
            segments = _segments(numbers)
            made = touched.chunk.accumulated(self._aggregators, Groups(rows, segments))
            parts = np.concatenate((parts, numbers[segments.starts]))
            columns = [concat([a, b]) for a, b in zip(columns, made, strict=True)] if len(opened) else made
        if len(opened):
            order = sorted_by(parts, np.arange(len(parts)))
            columns = self._aggregators.merge([gather(column, order) for column in columns], _segments(parts[order]))
        return WindowRows(touched.keys.take(sessions.keys), (sessions.ends, sessions.starts), columns)

    def _fire(self, rows: WindowRows, is_due: Mask, watermarks: Longs) -> None:
        due = np.flatnonzero(is_due)
        if not len(due):
            return
        due = due[sorted_by(np.zeros(len(due), np.int64), rows.ends[due])]
        for start in range(0, len(due), FIRED_ROWS):
            fired = rows.take(due[start : start + FIRED_ROWS])
            bounds = (pa.array(fired.numbers[1]), pa.array(fired.ends))
            table = self._layout.finish(fired.keys.values, bounds, fired.columns)
            stamps = stamps_of(fired.ends, self._watermark, watermarks)
            self.output.emit(Batch(self._layout.output_type, fired.ends - 1, stamps, columns=table))

    def _write(
        self,
        touched: TouchedKeys,
        found: FoundSessions,
        opened: WindowRows,
        rows: WindowRows,
        is_due: Mask,
        gone: Longs,
    ) -> None:
        """Writes the open sessions of the keys of which one has changed, or fired."""
        keys = found.sessions.keys
        has_changed = np.zeros(len(touched.keys), np.bool_)
        has_changed[touched.of_records[found.of_records != NO_SESSION]] = True
        has_changed[keys[is_due]] = True
        has_changed[gone] = True
        stays = has_changed[keys] & ~is_due
        is_new_end = np.ones(len(rows), np.bool_)
        is_new_end[found.of_open[opened.ends == rows.ends[found.of_open]]] = False
        had_some = np.zeros(len(touched.keys), np.bool_)
        had_some[keys[found.of_open]] = True
        had_some[gone] = True
        had_some[keys[stays]] = False
        written = np.flatnonzero(stays)
        without = touched.keys.take(np.flatnonzero(had_some & has_changed))
        sessions = rows.take(written)
        self._table.write(sessions, sessions.ends, is_new_end[written], without)


def arrived_times(touched: TouchedKeys, arrived: ArrivedRecords | None) -> ArrivedTimes:
    """The keys and times of records, of which there need not be any."""
    nothing = touched.of_records[:0]
    timestamps, watermarks = (nothing, nothing) if arrived is None else (arrived.timestamps, arrived.watermarks)
    return ArrivedTimes(touched.of_records, timestamps, watermarks)


def _segments(numbers: Longs) -> Segments:
    """The stretches of equal numbers, which do not fall."""
    changes = np.ones(len(numbers), np.bool_)
    changes[1:] = numbers[1:] != numbers[:-1]
    return Segments(np.flatnonzero(changes), len(numbers))
