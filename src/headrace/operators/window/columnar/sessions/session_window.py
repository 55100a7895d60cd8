"""Session windows with built-in aggregates, column by column.

Records wait until the watermark goes on at the end of a stretch of input, or until there are many. Then the sessions
of all of them are found at once, as if they had come one by one (:mod:`.find_sessions`). Of the open sessions only
those of keys are read and written that have records, or a session that may be due. What is emitted, and in which order,
is what handling the records one by one gives: by moment of firing, and within one moment by (window end, hash of key,
key).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import concat, gather
from headrace.operators.base import Operator
from headrace.operators.window.columnar.accumulators import Arrivals, Chunk
from headrace.operators.window.columnar.firing import stamps_of
from headrace.operators.window.columnar.keyed_windows import TouchedKeys
from headrace.operators.window.columnar.sessions.find_sessions import (
    NO_SESSION,
    ArrivedTimes,
    FoundSessions,
    Spans,
    find_sessions,
)
from headrace.operators.window.columnar.sessions.session_store import SessionRows, SessionStore
from headrace.operators.window.held_windows import held_times
from headrace.operators.window.lateness import LateRecords, check_timestamps, passed_end
from headrace.operators.window.stores import SESSION_ENDS_STORE, SESSIONS_STORE, check_has_only
from headrace.state.runs.grouping import Groups, Segments, sorted_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.held_windows import HeldWindow
    from headrace.state.keys import KeyColumn

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_PENDING_ROWS = 1 << 19
_PENDING_BYTES = 128 << 20
"""So many records wait at most, or so much memory; the more there are, the less often a session is read and written."""

_DUE_ROWS = 1 << 19
"""About so many sessions are read at a time when more are due, as at the end of the input."""

FIRED_ROWS = 1 << 16
"""So many results leave as one batch."""

_ADVICE = (
    "give it another uid, or restore the old declaration; sessions with allowed lateness that an earlier version has "
    "kept record by record go on so with a trigger of a class derived from EventTimeTrigger"
)


class SessionWindowOperator(Operator):
    """Built-in aggregates over sessions of event time with one gap for all records.

    Args:
        layout: the aggregates and the columns.
        gap: how long after its last record a session ends, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
    """

    def __init__(self, layout: ColumnarWindowLayout, gap: int, late_tag: str | None = None) -> None:
        super().__init__()
        self._layout = layout
        self._aggregators = layout.aggregators
        # A field of the key is that of the first record, as equal keys may be written in several ways.
        self._is_ordered = layout.is_ordered or bool(layout.key_fields)
        self._gap = gap
        self._late_tag = late_tag
        self._lateness = 0
        self._watermark = self._passed = MIN_WATERMARK

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        assert context.state is not None
        check_has_only(context, SESSIONS_STORE, SESSION_ENDS_STORE, advice=_ADVICE)
        self._store = SessionStore(self._layout, self._gap, context.state.store)
        self._late = LateRecords(self, 0, self._late_tag)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[HeldWindow]:
        """What sessions hold; of an operator that is not open. See :class:`.held_windows.HoldsWindows`."""
        assert context.state is not None
        found = SessionStore(self._layout, self._gap, context.state.store).all_open()
        found = found.take(np.flatnonzero(self._goes(found.ends) > passed_end(watermark)))
        return held_times(self._layout, found.keys.values, found.starts, found.ends, found.columns)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark, self._passed = scope.watermark, passed_end(scope.watermark)
        self._arrivals = Arrivals(scope.epoch)
        self._store.begin_epoch()
        self._forget_pending()

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        check_timestamps(batch, self.context, self._gap)
        keyed = cast("KeyedBatch", batch)
        columns = self._layout.inputs_of(keyed, self.context)
        arrivals = self._arrivals.next(len(keyed))
        ends = keyed.timestamps + self._gap
        chunk = Chunk(ends, keyed.keys.hashes, keyed.keys.values, columns, arrivals)
        kept = None if self._late_tag is None else keyed
        self._pending.append(WaitingSessionRecords(chunk, keyed.timestamps, keyed.watermarks, kept))
        self._pending_rows += len(chunk)
        # A few columns of a batch that was sent keep all of it in memory.
        self._pending_bytes += keyed.columns.nbytes if columns or kept is not None else chunk.nbytes
        if self._pending_rows >= _PENDING_ROWS or self._pending_bytes >= _PENDING_BYTES:
            self._advance(int(keyed.watermarks[-1]))

    def advance_watermark(self, watermark: int) -> None:
        if self._pending or watermark > self._watermark:
            self._advance(max(watermark, self._watermark))
        super().advance_watermark(self._watermark)

    def end_epoch(self) -> None:
        assert not self._pending, "records came after the last watermark of the epoch"
        self._store.end_epoch()

    def _advance(self, watermark: int) -> None:
        """Adds the records that wait to sessions, brings event time to a watermark, and fires what is due."""
        pending, upto = self._pending, passed_end(watermark)
        self._forget_pending()
        if self._store.first_due(upto, _DUE_ROWS) < upto:
            if pending:
                # The sessions of their keys are due when they are, however many others there are.
                reached = int(pending[-1].watermarks[-1])
                self._add_and_fire(pending, reached, passed_end(reached))
                self._watermark, self._passed, pending = reached, passed_end(reached), []
            while (first := self._store.first_due(upto, _DUE_ROWS)) < upto:
                self._add_and_fire([], watermark, first)
                self._passed = max(first, self._passed)
        self._add_and_fire(pending, watermark, upto)
        self._watermark, self._passed = watermark, upto

    def _add_and_fire(self, pending: Sequence[WaitingSessionRecords], watermark: int, upto: int) -> None:
        """Adds records to sessions, and fires those with an end not above ``upto``, on the way to a watermark."""
        touched = TouchedKeys.of([each.chunk for each in pending], self._store.take_due(upto))
        if touched is None:
            return
        timestamps = joined([each.timestamps for each in pending])
        watermarks = joined([each.watermarks for each in pending])
        which, opened, gone = self._open_of(touched.keys)
        records = ArrivedTimes(touched.of_records, timestamps, watermarks)
        found = find_sessions(self._gap, records, Spans(which, opened.starts, opened.ends))
        self._send_away(pending, found.of_records == NO_SESSION)
        rows = self._contents(touched, found, opened)
        is_due = rows.ends <= upto
        self._fire(rows, is_due, np.append(watermarks, watermark))
        self._write(touched, found, opened, rows, is_due, gone)

    def _open_of(self, keys: KeyColumn) -> tuple[Longs, SessionRows, Longs]:
        """The sessions of different keys that still take records, which of the keys each is of, and keys of others."""
        which, opened = self._store.find(keys)
        is_there = self._goes(opened.ends) > self._passed
        if is_there.all():
            return which, opened, which[:0]
        return which[is_there], opened.take(np.flatnonzero(is_there)), which[~is_there]

    def _goes(self, ends: Longs) -> Longs:
        """The ends that event time has to pass for sessions to go."""
        if not self._lateness:
            return ends
        return np.where(ends > MAX_WATERMARK - self._lateness, MAX_WATERMARK, ends + self._lateness)

    def _send_away(self, pending: Sequence[WaitingSessionRecords], is_late: Mask) -> None:
        if self._late_tag is None:
            self._late.drop(int(np.count_nonzero(is_late)))
            return
        first = 0
        for each in pending:
            assert each.batch is not None
            self._late.send_away(each.batch, is_late[first : first + len(each.batch)])
            first += len(each.batch)

    def _contents(self, touched: TouchedKeys, found: FoundSessions, opened: SessionRows) -> SessionRows:
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
        return SessionRows(touched.keys.take(sessions.keys), sessions.starts, sessions.ends, columns)

    def _fire(self, rows: SessionRows, is_due: Mask, watermarks: Longs) -> None:
        due = np.flatnonzero(is_due)
        if not len(due):
            return
        due = due[sorted_by(np.zeros(len(due), np.int64), rows.ends[due])]
        for start in range(0, len(due), FIRED_ROWS):
            fired = rows.take(due[start : start + FIRED_ROWS])
            bounds = (pa.array(fired.starts), pa.array(fired.ends))
            table = self._layout.finish(fired.keys.values, bounds, fired.columns)
            stamps = stamps_of(fired.ends, self._watermark, watermarks)
            self.output.emit(Batch(self._layout.output_type, fired.ends - 1, stamps, columns=table))

    def _write(
        self,
        touched: TouchedKeys,
        found: FoundSessions,
        opened: SessionRows,
        rows: SessionRows,
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
        self._store.write(sessions, sessions.ends, is_new_end[written], without)

    def _forget_pending(self) -> None:
        self._pending: list[WaitingSessionRecords] = []
        self._pending_rows = self._pending_bytes = 0


@dataclass(frozen=True)
class WaitingSessionRecords:
    """Records that wait.

    Attributes:
        chunk: what is needed of them, with the end that each has by itself.
        timestamps: their timestamps.
        watermarks: the watermark that each meets.
        batch: the records themselves, where those that are late are wanted.
    """

    chunk: Chunk
    timestamps: Longs
    watermarks: Longs
    batch: KeyedBatch | None


def joined(columns: list[Longs]) -> Longs:
    """The columns one after the other; there need not be any."""
    return np.concatenate(columns) if columns else np.empty(0, np.int64)


def _segments(numbers: Longs) -> Segments:
    """The stretches of equal numbers, which do not fall."""
    changes = np.ones(len(numbers), np.bool_)
    changes[1:] = numbers[1:] != numbers[:-1]
    return Segments(np.flatnonzero(changes), len(numbers))
