"""Session windows with built-in aggregates, column by column.

The sessions of all records that have waited are found at once, as if the records had come one by one
(:mod:`.sessions`). Sessions are emitted in the order in which they would fire then: by moment of firing, and
within one moment by window end, hash of key and key.

Where sessions stay for late records, nothing is late for most keys: their sessions are found in the same way, and
those that have fired stay beside them for a while. A key is another matter when a record of it is late, or reaches a
session that has fired. That is so where sessions would be fewer if they had not fired, but stayed open for the allowed
lateness. The sessions of these keys are followed record by record (:mod:`.sessions`); what they hold is still
added up in columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width, gather
from headrace.common.batch import Batch, take_back
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout, stretches
from headrace.operators.window.columnar.firing import FIRED_ROWS
from headrace.operators.window.columnar.sessions import (
    NO_SESSION,
    ArrivedTimes,
    FoundSessions,
    SessionFollower,
    Spans,
    find_sessions,
)
from headrace.operators.window.columnar.windows_by_key import (
    SESSIONS,
    ActiveKeys,
    ArrivedRecords,
    KeyedWindowOperator,
    WindowRows,
    WindowTable,
)
from headrace.operators.window.lateness import check_timestamps, passed_end
from headrace.operators.window.stored_windows import StoredWindow, held_times
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, sorted_by

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WAITING_ROWS = 1 << 19
"""The most records that wait; the more there are, the less often a session is read and written."""

_DUE_ROWS = 1 << 19
"""About so many sessions are read at a time when more are due, as at the end of the input."""


class SessionWindowOperator(KeyedWindowOperator):
    """Built-in aggregates over sessions of event time with one gap for all records.

    Args:
        layout: the aggregates and the columns.
        gap: how long after its last record a session ends, in milliseconds.
        late_tag: the id of the side output for records that come too late; without one they are dropped and counted.
        lateness: how long after its end a session still takes records, and fires again, in milliseconds.
        discards: whether sessions drop what they hold when they fire.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        gap: int,
        late_tag: str | None = None,
        lateness: int = 0,
        *,
        discards: bool = False,
    ) -> None:
        super().__init__(layout, _WAITING_ROWS, lateness, late_tag)
        self._is_ordered = layout.is_ordered
        self._gap = gap
        self._discards = discards
        self._passed = MIN_WATERMARK

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """The contents of sessions, read by an operator that is not open. See :class:`.WindowStateReader`."""
        found = self._open_table(context).stored()
        held_until = found.ends if self._discards else self._goes(found.ends)
        found = found.take(np.flatnonzero(held_until > passed_end(watermark)))
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
                reached = arrived.batch.last_watermark
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
        stretch = self._stretch(touched, arrived, watermark)
        found, of_open, sure = self._sure_sessions(stretch)
        ended = np.flatnonzero(sure.ends <= upto)
        ended = ended[sorted_by(np.zeros(len(ended), np.int64), sure.ends[ended])]
        is_new_time = np.ones(len(sure), np.bool_)
        is_new_time[found.of_open[stretch.opened.ends[of_open] == sure.ends[found.of_open]]] = False
        is_new_time[ended] = True
        shown = ended[fixed_width(sure.columns[0])[ended] > 0] if self._layout.retracts else ended
        fired = [_Part(found.sessions.keys[shown], sure.take(shown), stretch.places_of(sure.ends[shown]))]
        left = [_Part(found.sessions.keys, sure, is_new_time)]
        is_late = found.of_records == NO_SESSION
        if stretch.has_fired.any():
            carried = np.flatnonzero(stretch.has_fired & ~stretch.is_followed[stretch.spans.keys])
            rows = stretch.opened.take(carried)
            left.append(_Part(stretch.spans.keys[carried], rows, np.zeros(len(carried), np.bool_)))
        if stretch.is_followed.any():
            refused = self._follow(stretch, fired, left)
            is_late &= ~stretch.is_followed[stretch.records.keys]
            is_late[refused] = True
        if arrived is not None:
            self._late.send_away(arrived.batch, is_late)
        self._emit(fired, np.append(self._watermark, stretch.marks))
        has_changed = stretch.is_followed
        has_changed[found.sessions.keys[ended]] = True
        for keys in (stretch.records.keys[~is_late], stretch.gone, *(each.keys for each in fired)):
            has_changed[keys] = True
        self._write(stretch, left, has_changed, upto)

    def _stretch(self, touched: ActiveKeys, arrived: ArrivedRecords | None, watermark: int) -> _Stretch:
        nothing = touched.of_records[:0]
        times = (nothing, nothing) if arrived is None else (arrived.timestamps, arrived.watermarks)
        records = ArrivedTimes(touched.of_records, *times)
        which, opened, gone = self._open_of(touched.keys)
        spans, has_fired = Spans(which, opened.numbers[1], opened.ends), opened.ends <= self._passed
        is_followed = self._followed_keys(len(touched.keys), records, spans, has_fired)
        marks = np.append(records.watermarks, watermark)
        kinds = None if arrived is None or not self._layout.retracts else arrived.batch.kinds
        taken_back = None if kinds is None else take_back(kinds)
        return _Stretch(touched, records, spans, opened, has_fired, is_followed, gone, marks, taken_back)

    def _followed_keys(self, total: int, records: ArrivedTimes, opened: Spans, has_fired: Mask) -> Mask:
        """Return which of so many keys have late records that matter."""
        is_followed = np.zeros(total, np.bool_)
        if not len(records.keys) or not self._lateness:
            return is_followed
        sessions = find_sessions(self._gap, records, _take(opened, np.flatnonzero(~has_fired))).sessions.keys
        apart = np.bincount(sessions, minlength=total) + np.bincount(opened.keys[has_fired], minlength=total)
        met = records.watermarks
        earlier = np.where(met < MIN_WATERMARK + self._lateness, MIN_WATERMARK, met - self._lateness)
        kept_open = find_sessions(self._gap, ArrivedTimes(records.keys, records.timestamps, earlier), opened)
        is_followed |= apart != np.bincount(kept_open.sessions.keys, minlength=total)
        is_followed[records.keys[records.timestamps + (self._gap - 1) <= met]] = True
        return is_followed

    def _sure_sessions(self, stretch: _Stretch) -> tuple[FoundSessions, Longs, WindowRows]:
        """The sessions of the other keys but those that had fired, and which of the open ones they are made of."""
        records, is_followed = stretch.records, stretch.is_followed
        if not stretch.has_fired.any() and not is_followed.any():
            found = find_sessions(self._gap, records, stretch.spans)
            return found, np.arange(len(stretch.spans)), self._contents(stretch, found, stretch.opened)
        rows = np.flatnonzero(~is_followed[records.keys])
        part = ArrivedTimes(records.keys[rows], records.timestamps[rows], records.watermarks[rows])
        of_open = np.flatnonzero(~stretch.has_fired & ~is_followed[stretch.spans.keys])
        found = find_sessions(self._gap, part, _take(stretch.spans, of_open))
        of_records = np.full(len(records.keys), NO_SESSION)
        of_records[rows] = found.of_records
        found = FoundSessions(found.sessions, of_records, found.of_open, rows[found.by_session])
        return found, of_open, self._contents(stretch, found, stretch.opened.take(of_open))

    def _open_of(self, keys: KeyColumn) -> tuple[Longs, WindowRows, Longs]:
        """The sessions of different keys that still take records, which of the keys each is of, and keys of others."""
        which, opened = self._table.find(keys)
        is_there = self._goes(opened.ends) > self._passed
        if is_there.all():
            return which, opened, which[:0]
        return which[is_there], opened.take(np.flatnonzero(is_there)), which[~is_there]

    def _open_table(self, context: OperatorContext) -> WindowTable:
        shape = {"gap": self._gap, "discards": self._discards} if self._lateness else {"gap": self._gap}
        return WindowTable(SESSIONS, self._layout, context, shape)

    def _goes(self, ends: Longs) -> Longs:
        """The ends that event time has to pass for sessions to go."""
        if not self._lateness:
            return ends
        return np.where(ends > MAX_WATERMARK - self._lateness, MAX_WATERMARK, ends + self._lateness)

    def _contents(self, stretch: _Stretch, found: FoundSessions, opened: WindowRows) -> WindowRows:
        """The sessions, each with the accumulators of its records and of the open sessions that it is made of."""
        sessions, pieces = found.sessions, [(found.of_open, opened.columns)] if len(opened) else []
        pieces += self._accumulated(stretch, found)
        parts, columns = pieces[0] if pieces else (found.of_open, opened.columns)
        if len(pieces) > 1:
            parts = np.concatenate([part for part, _ in pieces])
            columns = [concat(list(each)) for each in zip(*(columns for _, columns in pieces), strict=True)]
        if len(opened) or len(pieces) > 1:
            order = sorted_by(parts, np.arange(len(parts)))
            columns = self._aggregators.merge([gather(column, order) for column in columns], stretches(parts[order]))
        return WindowRows(stretch.touched.keys.take(sessions.keys), (sessions.ends, sessions.starts), columns)

    def _accumulated(self, stretch: _Stretch, found: FoundSessions) -> list[tuple[Longs, list[pa.Array]]]:
        """The accumulators of the records of sessions, and of those that are taken back, with the session of each."""
        rows, chunk = found.by_session, stretch.touched.chunk
        if chunk is None or not len(rows):
            return []
        if self._is_ordered:
            rows = rows[sorted_by(found.of_records[rows], rows)]
        if stretch.taken_back is None:
            added, taken = rows, rows[:0]
        else:
            is_taken = stretch.taken_back[rows]
            added, taken = rows[~is_taken], rows[is_taken]
        pieces = []
        for part, made in ((added, chunk.accumulated), (taken, chunk.retracted)):
            if len(part):
                numbers = found.of_records[part]
                segments = stretches(numbers)
                columns = made(self._aggregators, Groups(part, segments))
                pieces.append((numbers[segments.starts], columns))
        return pieces

    def _follow(self, stretch: _Stretch, fired: list[_Part], left: list[_Part]) -> Longs:
        """Follows the sessions of the keys whose late records matter; gives the records that came too late."""
        records, marks, keys = stretch.records, stretch.marks, stretch.touched.keys
        assert stretch.touched.chunk is not None, "without records nothing is late"
        of_open = np.flatnonzero(stretch.is_followed[stretch.spans.keys])
        spans = _take(stretch.spans, of_open)
        follower = SessionFollower(self._gap, self._lateness, spans, self._passed, discards=self._discards)
        found = follower.follow(records, np.flatnonzero(stretch.is_followed[records.keys]), int(marks[-1]))
        held = [gather(column, of_open) for column in stretch.opened.columns]
        columns = follower.versions(self._aggregators, stretch.touched.chunk, held)
        results = _rows(keys, found.fired, [gather(column, found.fired_versions) for column in columns])
        rows = _rows(keys, found.left, [gather(column, found.left_versions) for column in columns])
        late = found.late_records
        places = np.where(late >= 0, 2 * late + 1, stretch.places_of(found.fired.ends))
        fired.append(_Part(found.fired.keys, results, places))
        left.append(_Part(found.left.keys, rows, np.ones(len(rows), np.bool_)))
        return found.refused

    def _emit(self, fired: Sequence[_Part], before: Longs) -> None:
        """Emits results in the order in which they are made; ``before`` has the watermark before each place."""
        rows, places = fired[0].rows, fired[0].notes
        if len(fired) > 1:
            keys, places = (np.concatenate([getattr(each, name) for each in fired]) for name in ("keys", "notes"))
            rows = _concat([each.rows for each in fired])
            order = np.lexsort((keys, rows.ends, places))
            rows, places = rows.take(order), places[order]
        for start in range(0, len(rows), FIRED_ROWS):
            stop = min(start + FIRED_ROWS, len(rows))
            part, at = rows.slice(start, stop), places[start:stop]
            bounds = [pa.array(part.numbers[1]), pa.array(part.ends)]
            table = self._layout.finish(part.keys.values, bounds, part.columns)
            stamps = before[(at + 1) // 2]  # a late record has met the watermark that is in force behind its place
            self.output.emit(Batch(self._layout.output_type, part.ends - 1, stamps, columns=table))

    def _write(self, stretch: _Stretch, left: Sequence[_Part], has_changed: Mask, upto: int) -> None:
        """Writes all sessions of the keys of which one has changed.

        Args:
            stretch: what has come.
            left: the sessions, by parts.
            has_changed: which keys have changed.
            upto: the ends up to which sessions have fired.
        """
        keys = stretch.touched.keys
        of_keys, is_new_time = (np.concatenate([getattr(each, name) for each in left]) for name in ("keys", "notes"))
        rows = _concat([each.rows for each in left])
        goes = self._goes(rows.ends)
        stays = goes > upto
        has_changed[of_keys[~stays]] = True
        written = np.flatnonzero(stays & has_changed[of_keys])
        if len(left) > 1:
            written = written[sorted_by(of_keys[written], rows.ends[written])]
        is_without = np.zeros(len(keys), np.bool_)
        is_without[stretch.spans.keys] = is_without[stretch.gone] = True
        is_without[of_keys[written]] = False
        without = keys.take(np.flatnonzero(is_without & has_changed))
        sessions = rows.take(written)
        times = np.where(sessions.ends <= upto, goes[written], sessions.ends)
        self._table.write(sessions, times, is_new_time[written], without)


@dataclass(frozen=True)
class _Stretch:
    """The records that have come, and the sessions of their keys.

    Attributes:
        touched: the records, and the keys that they are of or that have sessions that are due.
        records: the same records.
        spans: the sessions that are there.
        opened: the same, with what they hold.
        has_fired: which of them have fired.
        is_followed: which keys have late records that matter.
        gone: keys of sessions that were stored, but take no more records.
        marks: the watermarks that the records meet, and at last the one that is reached.
        taken_back: which of the records take former ones back; None where none does.
    """

    touched: ActiveKeys
    records: ArrivedTimes
    spans: Spans
    opened: WindowRows
    has_fired: Mask
    is_followed: Mask
    gone: Longs
    marks: Longs
    taken_back: Mask | None = None

    def places_of(self, ends: Longs) -> Longs:
        """Twice the number of records before sessions fire at their ends."""
        return 2 * np.searchsorted(self.marks, ends - 1)


class _Part(NamedTuple):
    """Some sessions that fire, or that are there.

    Attributes:
        keys: the key of each, as a number.
        rows: the sessions, by key and end or by end and key.
        notes: of sessions that fire, twice the number of records before each firing, and one more where it is for a
            late record. Of those that are there, whether it was not known before when each is due next.
    """

    keys: Longs
    rows: WindowRows
    notes: Longs | Mask


def _take(spans: Spans, rows: Longs) -> Spans:
    return Spans(spans.keys[rows], spans.starts[rows], spans.ends[rows])


def _rows(keys: KeyColumn, spans: Spans, columns: list[pa.Array]) -> WindowRows:
    return WindowRows(keys.take(spans.keys), (spans.ends, spans.starts), columns)


def _concat(pieces: Sequence[WindowRows]) -> WindowRows:
    pieces = [piece for piece in pieces if len(piece)] or list(pieces[:1])
    return WindowRows(
        KeyColumn.concat([piece.keys for piece in pieces]),
        tuple(map(np.concatenate, zip(*(piece.numbers for piece in pieces), strict=True))),
        [concat(list(columns)) for columns in zip(*(piece.columns for piece in pieces), strict=True)],
    )
