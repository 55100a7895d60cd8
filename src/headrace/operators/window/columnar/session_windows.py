"""Session windows with built-in aggregates, column by column.

The sessions of all records that have waited are found at once, as if the records had come one by one
(:mod:`.find_sessions`). Sessions are emitted in the order in which they would fire then: by moment of firing, and
within one moment by window end, hash of key and key.

Where sessions stay for late records, nothing is late for most keys: their sessions are found in the same way, and
those that have fired stay beside them for a while. A key is another matter when a record of it is late, or reaches a
session that has fired. That is so where sessions would be fewer if they had not fired, but stayed open for the allowed
lateness. The sessions of these keys are followed record by record (:mod:`.follow_sessions`); what they hold is still
added up in columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.firing import FIRED_ROWS, stamps_of
from headrace.operators.window.columnar.keyed_operator import KeyedWindowOperator
from headrace.operators.window.columnar.sessions import (
    NO_SESSION,
    ArrivedTimes,
    FoundSessions,
    SessionFollower,
    Spans,
    find_sessions,
)
from headrace.operators.window.columnar.window_table import SESSIONS, ActiveKeys, WindowRows, WindowTable
from headrace.operators.window.lateness import check_timestamps, passed_end
from headrace.operators.window.stored_windows import held_times
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments, sorted_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.waiting import ArrivedRecords
    from headrace.operators.window.stored_windows import StoredWindow

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

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """What sessions hold; of an operator that is not open. See :class:`.held_windows.WindowStateReader`."""
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
        touched = ActiveKeys.of(None if arrived is None else arrived.chunk, self._table.take_due(upto))
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

    def _contents(self, touched: ActiveKeys, found: FoundSessions, opened: WindowRows) -> WindowRows:
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
        touched: ActiveKeys,
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


def arrived_times(touched: ActiveKeys, arrived: ArrivedRecords | None) -> ArrivedTimes:
    """The keys and times of records, of which there need not be any."""
    nothing = touched.of_records[:0]
    timestamps, watermarks = (nothing, nothing) if arrived is None else (arrived.timestamps, arrived.watermarks)
    return ArrivedTimes(touched.of_records, timestamps, watermarks)


def _segments(numbers: Longs) -> Segments:
    """The stretches of equal numbers, which do not fall."""
    changes = np.ones(len(numbers), np.bool_)
    changes[1:] = numbers[1:] != numbers[:-1]
    return Segments(np.flatnonzero(changes), len(numbers))


class KeptSessionOperator(SessionWindowOperator):
    """Sessions of event time that take late records for a while after they have fired, and fire again.

    Args:
        layout: the aggregates and the columns.
        gap: how long after its last record a session ends, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        lateness: how long after its end a session still takes records, in milliseconds.
        discards: whether sessions drop what they hold when they fire.
    """

    def __init__(
        self, layout: ColumnarWindowLayout, gap: int, late_tag: str | None, lateness: int, *, discards: bool = False
    ) -> None:
        super().__init__(layout, gap, late_tag, lateness)
        self._discards = discards

    def _open_table(self, context: OperatorContext) -> WindowTable:
        return WindowTable(SESSIONS, self._layout, context, {"gap": self._gap, "discards": self._discards})

    def _held_until(self, ends: Longs) -> Longs:
        return ends if self._discards else self._goes(ends)

    def _add_and_fire(self, arrived: ArrivedRecords | None, watermark: int, upto: int) -> None:
        touched = ActiveKeys.of(None if arrived is None else arrived.chunk, self._table.take_due(upto))
        if touched is None:
            return
        stretch = self._stretch(touched, arrived_times(touched, arrived), watermark)
        found, sure = self._sure_sessions(stretch)
        ended = np.flatnonzero(sure.ends <= upto)
        places = 2 * np.searchsorted(stretch.marks, sure.ends[ended] - 1)
        results = [_Results(found.sessions.keys[ended], sure.take(ended), places)]
        carried = np.flatnonzero(stretch.has_fired & ~stretch.is_followed[stretch.spans.keys])
        left = [(found.sessions.keys, sure), (stretch.spans.keys[carried], stretch.opened.take(carried))]
        is_late = (found.of_records == NO_SESSION) & ~stretch.is_followed[stretch.records.keys]
        if stretch.is_followed.any():
            followed = self._follow(stretch)
            results.append(followed.results)
            left.append((followed.keys, followed.rows))
            is_late[followed.refused] = True
        self._send_away(arrived, is_late)
        self._emit(results, np.append(self._watermark, stretch.marks))
        has_changed = stretch.is_followed.copy()
        for keys in (stretch.records.keys[~is_late], stretch.gone, *(each.keys for each in results)):
            has_changed[keys] = True
        self._write_all(stretch, left, has_changed, upto)

    def _stretch(self, touched: ActiveKeys, records: ArrivedTimes, watermark: int) -> _Stretch:
        which, opened, gone = self._open_of(touched.keys)
        spans, has_fired = Spans(which, opened.numbers[1], opened.ends), opened.ends <= self._passed
        is_followed = self._followed_keys(len(touched.keys), records, spans, has_fired)
        marks = np.append(records.watermarks, watermark)
        return _Stretch(touched, records, spans, opened, has_fired, is_followed, gone, marks)

    def _followed_keys(self, total: int, records: ArrivedTimes, opened: Spans, has_fired: Mask) -> Mask:
        """Which of so many keys have late records that matter."""
        is_followed = np.zeros(total, np.bool_)
        if not len(records.keys):
            return is_followed
        sessions = find_sessions(self._gap, records, _take(opened, np.flatnonzero(~has_fired))).sessions.keys
        apart = np.bincount(sessions, minlength=total) + np.bincount(opened.keys[has_fired], minlength=total)
        met = records.watermarks
        earlier = np.where(met < MIN_WATERMARK + self._lateness, MIN_WATERMARK, met - self._lateness)
        kept_open = find_sessions(self._gap, ArrivedTimes(records.keys, records.timestamps, earlier), opened)
        is_followed |= apart != np.bincount(kept_open.sessions.keys, minlength=total)
        is_followed[records.keys[records.timestamps + (self._gap - 1) <= met]] = True
        return is_followed

    def _sure_sessions(self, stretch: _Stretch) -> tuple[FoundSessions, WindowRows]:
        """The sessions of the other keys, but those that have fired."""
        records, is_followed = stretch.records, stretch.is_followed
        rows = np.flatnonzero(~is_followed[records.keys])
        part = ArrivedTimes(records.keys[rows], records.timestamps[rows], records.watermarks[rows])
        of_open = np.flatnonzero(~stretch.has_fired & ~is_followed[stretch.spans.keys])
        found = find_sessions(self._gap, part, _take(stretch.spans, of_open))
        of_records = np.full(len(records.keys), NO_SESSION)
        of_records[rows] = found.of_records
        found = FoundSessions(found.sessions, of_records, found.of_open, rows[found.by_session])
        return found, self._contents(stretch.touched, found, stretch.opened.take(of_open))

    def _follow(self, stretch: _Stretch) -> _Followed:
        """The sessions of the keys whose late records matter."""
        records, marks, keys = stretch.records, stretch.marks, stretch.touched.keys
        assert stretch.touched.chunk is not None, "without records nothing is late"
        of_open = np.flatnonzero(stretch.is_followed[stretch.spans.keys])
        spans = _take(stretch.spans, of_open)
        follower = SessionFollower(self._gap, self._lateness, spans, self._passed, discards=self._discards)
        found = follower.follow(records, np.flatnonzero(stretch.is_followed[records.keys]), int(marks[-1]))
        held = [gather(column, of_open) for column in stretch.opened.columns]
        columns = follower.versions(self._aggregators, stretch.touched.chunk, held)
        fired = _rows(keys, found.fired, [gather(column, found.fired_versions) for column in columns])
        left = _rows(keys, found.left, [gather(column, found.left_versions) for column in columns])
        on_time = np.searchsorted(marks, found.fired.ends - 1)
        places = np.where(found.late_records >= 0, 2 * found.late_records + 1, 2 * on_time)
        return _Followed(_Results(found.fired.keys, fired, places), found.left.keys, left, found.refused)

    def _emit(self, results: Sequence[_Results], before: Longs) -> None:
        """Emits results in the order in which they are made; ``before`` has the watermark before each place."""
        keys, places = (np.concatenate([getattr(each, name) for each in results]) for name in ("keys", "places"))
        rows = _concat([each.rows for each in results])
        order = np.lexsort((keys, rows.ends, places))
        for start in range(0, len(order), FIRED_ROWS):
            chosen = order[start : start + FIRED_ROWS]
            fired, at = rows.take(chosen), places[chosen]
            table = self._layout.finish(
                fired.keys.values, [pa.array(fired.numbers[1]), pa.array(fired.ends)], fired.columns
            )
            stamps = before[(at + 1) // 2]  # a late record has met the watermark that is in force behind its place
            self.output.emit(Batch(self._layout.output_type, fired.ends - 1, stamps, columns=table))

    def _write_all(
        self, stretch: _Stretch, left: Sequence[tuple[Longs, WindowRows]], has_changed: Mask, upto: int
    ) -> None:
        """Writes all sessions of the keys of which one has changed.

        Args:
            stretch: what has come.
            left: the sessions, by parts, with the keys that they are of.
            has_changed: which keys have changed.
            upto: the ends up to which sessions have fired.
        """
        keys = stretch.touched.keys
        of_keys, rows = np.concatenate([numbers for numbers, _ in left]), _concat([part for _, part in left])
        goes = self._goes(rows.ends)
        stays = goes > upto
        has_changed[of_keys[~stays]] = True
        written = np.flatnonzero(stays & has_changed[of_keys])
        written = written[sorted_by(of_keys[written], rows.ends[written])]
        is_without = np.zeros(len(keys), np.bool_)
        is_without[stretch.spans.keys] = is_without[stretch.gone] = True
        is_without[of_keys[written]] = False
        without = keys.take(np.flatnonzero(is_without & has_changed))
        sessions = rows.take(written)
        times = np.where(sessions.ends <= upto, goes[written], sessions.ends)
        self._table.write(sessions, times, np.ones(len(written), np.bool_), without)


@dataclass(frozen=True)
class _Stretch:
    """What has come, and the sessions of its keys.

    Attributes:
        touched: the records, and the keys that they are of or that have sessions that are due.
        records: the same records.
        spans: the sessions that are there.
        opened: the same, with what they hold.
        has_fired: which of them have fired.
        is_followed: which keys have late records that matter.
        gone: keys of sessions that were stored, but take no more records.
        marks: the watermarks that the records meet, and at last the one that is reached.
    """

    touched: ActiveKeys
    records: ArrivedTimes
    spans: Spans
    opened: WindowRows
    has_fired: Mask
    is_followed: Mask
    gone: Longs
    marks: Longs


@dataclass(frozen=True)
class _Results:
    """Sessions that fire.

    Attributes:
        keys: the key of each, as a number.
        rows: the sessions.
        places: twice the number of records before each firing, and one less than that of the late record it is for.
    """

    keys: Longs
    rows: WindowRows
    places: Longs


@dataclass(frozen=True)
class _Followed:
    """What has become of sessions that were followed.

    Attributes:
        results: those that have fired.
        keys: the key of each that is left, as a number.
        rows: those that are left.
        refused: the records that came too late.
    """

    results: _Results
    keys: Longs
    rows: WindowRows
    refused: Longs


def _take(spans: Spans, rows: Longs) -> Spans:
    return Spans(spans.keys[rows], spans.starts[rows], spans.ends[rows])


def _rows(keys: KeyColumn, spans: Spans, columns: list[pa.Array]) -> WindowRows:
    return WindowRows(keys.take(spans.keys), (spans.ends, spans.starts), columns)


def _concat(pieces: Sequence[WindowRows]) -> WindowRows:
    """The rows of all pieces."""
    pieces = [piece for piece in pieces if len(piece)] or list(pieces[:1])
    return WindowRows(
        KeyColumn.concat([piece.keys for piece in pieces]),
        tuple(map(np.concatenate, zip(*(piece.numbers for piece in pieces), strict=True))),
        [concat(list(columns)) for columns in zip(*(piece.columns for piece in pieces), strict=True)],
    )
