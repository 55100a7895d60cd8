"""Sessions: which records are of one session, for many keys at once, and record by record where late ones matter.

A record lasts from its timestamp until a gap later; those of a key that overlap or touch are one session, which fires
when the watermark reaches the last millisecond of it. What comes later begins a session of its own, however close its
timestamp is. The rule for two records is this: with *t* the timestamp of the earlier one, both are of one session when
the other's timestamp is not above *t + gap*, and both came before the watermark reached *t + gap - 1*. When it does,
both are there, and overlap or touch. A record for which there is no such other one is the last of its session. So,
in the order of timestamps, a session is a stretch of the records of its key, and ends behind such a record.

This holds for records that are on time by themselves. One that is late by itself is still taken into a session that
has not fired and that it overlaps or touches. It makes no session longer at its end, so it does not change which of
the others belong together; it may make the session begin earlier, and so reach further records that are late.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.window.columnar.accumulators import Chunk
from headrace.operators.window.columnar.version_log import LoggedWindow, VersionLog
from headrace.state.runs.grouping import sorted_by, sorted_pairs

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = list[pa.Array]


NO_SESSION: Final = -1
"""In place of the session of a record that is too late for all."""


@dataclass(frozen=True)
class ArrivedTimes:
    """Records, in the order in which they came.

    Attributes:
        keys: which key each has, as a number from 0 on.
        timestamps: milliseconds.
        watermarks: the watermark that each meets; it never falls.
    """

    keys: Longs
    timestamps: Longs
    watermarks: Longs


@dataclass(frozen=True)
class Spans:
    """Sessions, by key and then by time.

    Attributes:
        keys: which key each has, as a number from 0 on.
        starts: the first timestamp of each.
        ends: the gap after the last timestamp of each.
    """

    keys: Longs
    starts: Longs
    ends: Longs

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class FoundSessions:
    """The outcome for records and open sessions.

    Attributes:
        sessions: all sessions, those included that the watermarks of the records have passed.
        of_records: the session of each record; ``NO_SESSION`` for one that is too late.
        of_open: the session that each open session is part of.
        by_session: the records that are not too late, session after session; those of one in any order.
    """

    sessions: Spans
    of_records: Longs
    of_open: Longs
    by_session: Longs


def find_sessions(gap: int, records: ArrivedTimes, opened: Spans) -> FoundSessions:
    """The sessions of records and of the sessions that were open when the first of them came.

    Args:
        gap: how long after its last record a session ends, in milliseconds.
        records: the records.
        opened: sessions that have not fired, of the same keys; none overlaps or touches another.
    """
    is_late = records.timestamps + (gap - 1) <= records.watermarks
    rows = np.flatnonzero(~is_late)
    points = _SessionPoints.of(gap, records, rows, opened)
    firsts = np.flatnonzero(np.concatenate((np.ones(min(len(points.keys), 1), np.bool_), ~points.are_linked)))
    numbers = np.empty(len(points.keys), np.int64)
    numbers[points.order] = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(points.keys)))
    lasts = np.append(firsts[1:], len(points.keys))[: len(firsts)] - 1
    starts, ends = points.times[firsts], points.times[lasts] + gap
    found = Spans(points.keys[firsts], starts, ends)
    of_records = np.full(len(records.keys), NO_SESSION)
    of_records[rows] = numbers[: len(rows)]
    of_open = numbers[len(rows) : len(rows) + len(opened)]
    by_session = points.order if not len(opened) else points.order[points.order < len(rows)]
    if is_late.any():
        found = _with_late(gap, records, np.flatnonzero(is_late), found, of_records, opened, of_open)
        by_session = np.flatnonzero(of_records != NO_SESSION)
        by_session = by_session[sorted_by(of_records[by_session], by_session)]
    return FoundSessions(found, of_records, of_open, by_session)


@dataclass(frozen=True)
class _SessionPoints:
    """Records that are on time, and the first and the last timestamp of each open session, by key and time.

    Attributes:
        order: for each of them, which one it is: first the records, then the starts, then the last timestamps.
        keys: the key of each.
        times: the timestamp of each.
        are_linked: for each but the last, whether it is of one session with the next one.
    """

    order: Longs
    keys: Longs
    times: Longs
    are_linked: Mask

    @staticmethod
    def of(gap: int, records: ArrivedTimes, rows: Longs, opened: Spans) -> "_SessionPoints":
        """The points of some records and of open sessions."""
        keys, times, marks = records.keys, records.timestamps, records.watermarks
        if len(rows) < len(keys):
            keys, times, marks = keys[rows], times[rows], marks[rows]
        if len(opened):
            keys = np.concatenate((keys, opened.keys, opened.keys))
            times = np.concatenate((times, opened.starts, opened.ends - gap))
            marks = np.concatenate((marks, np.full(2 * len(opened), MIN_WATERMARK)))
        order, keys, times = sorted_pairs(keys, times)
        are_linked = _linked(gap, keys, times, marks[order])
        if len(opened):
            places = np.empty(len(order), np.int64)
            places[order] = np.arange(len(order))
            change = np.zeros(len(order), np.int64)
            change[places[len(rows) : len(rows) + len(opened)]] = 1
            change[places[len(rows) + len(opened) :]] -= 1
            are_linked |= np.cumsum(change)[:-1] > 0
        return _SessionPoints(order, keys, times, are_linked)


def _linked(gap: int, keys: Longs, times: Longs, marks: Longs) -> Mask:
    """Return whether each point but the last is of one session with the next one."""
    ends = times[:-1] + gap
    is_near = (keys[1:] == keys[:-1]) & (times[1:] <= ends)
    are_linked: Mask = is_near & ((marks[1:] < ends - 1) | (times[1:] == times[:-1]))
    # The next one came when the session would have fired, but one behind it may have come before.
    unsure = np.flatnonzero(is_near & ~are_linked)
    if len(unsure):
        stops = _first_above(times, unsure + 1, np.searchsorted(keys, keys[unsure], side="right"), ends[unsure])
        are_linked[unsure] = _least(marks, unsure + 1, stops) < ends[unsure] - 1
    return are_linked


def _with_late(
    gap: int, records: ArrivedTimes, late: Longs, found: Spans, of_records: Longs, opened: Spans, of_open: Longs
) -> Spans:
    """The sessions once those records that are late by themselves are in them which are taken; notes these down."""
    late, candidates = _candidates(records, late, found)
    if not len(late):
        return found
    is_candidate = np.zeros(len(found), np.bool_)
    is_candidate[candidates] = True
    members = np.flatnonzero(is_candidate[of_records] & (of_records != NO_SESSION))
    older = np.flatnonzero(is_candidate[of_open])
    sessions = np.concatenate((of_open[older], of_records[members], candidates))
    arrivals = np.concatenate((np.full(len(older), -1), members, late))
    times = np.concatenate((opened.starts[older], records.timestamps[members], records.timestamps[late]))
    order = sorted_by(sessions, arrivals)
    sessions, arrivals, times = sessions[order], arrivals[order], times[order]
    is_late = order >= len(older) + len(members)
    lowest = _lowest_before(sessions, np.where(is_late, MAX_WATERMARK, times))[is_late]
    sessions, arrivals, times = sessions[is_late], arrivals[is_late], times[is_late]
    is_taken = _are_reached(gap, sessions, times, lowest)
    of_records[arrivals[is_taken]] = sessions[is_taken]
    starts = found.starts.copy()
    np.minimum.at(starts, sessions[is_taken], times[is_taken])
    return Spans(found.keys, starts, found.ends)


def _candidates(records: ArrivedTimes, late: Longs, found: Spans) -> tuple[Longs, Longs]:
    """The late records that may be part of a session, and that session.

    It covers the moment after the watermark that the record meets: only one of a key does, and no later one can be
    reached.
    """
    low = np.searchsorted(found.keys, records.keys[late])
    high = np.searchsorted(found.keys, records.keys[late], side="right")
    moments = np.minimum(records.watermarks[late], MAX_WATERMARK - 1) + 1
    candidates = _first_above(found.ends, low, high, moments)
    has_one = candidates < high
    return late[has_one], candidates[has_one]


def _are_reached(gap: int, sessions: Longs, times: Longs, lowest: Longs) -> Mask:
    """Return which late records overlap or touch their session, as it is when they come.

    Args:
        gap: how long a record lasts.
        sessions: the session of each record; these do not fall, and the records of one are as they came.
        times: their timestamps.
        lowest: the first timestamp of the session when each comes, without other late records.
    """
    are_reached: Mask = lowest <= times + gap
    while True:
        taken = _lowest_before(sessions, np.where(are_reached, times, MAX_WATERMARK))
        now = np.minimum(lowest, taken) <= times + gap
        if np.array_equal(now, are_reached):
            return are_reached
        are_reached = now


def _first_above(values: Longs, starts: Longs, stops: Longs, bounds: Longs) -> Longs:
    """In each range of ``values``, which rise there, the place of the first one above a bound; else its stop."""
    low, high = starts.copy(), stops.copy()
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        is_above = values[np.where(is_open, middle, 0)] > bounds
        high = np.where(is_open & is_above, middle, high)
        low = np.where(is_open & ~is_above, middle + 1, low)
    return low


def _least(values: Longs, starts: Longs, stops: Longs) -> Longs:
    """The least of the values in each range; none is empty."""
    lengths = stops - starts
    least = np.empty(len(starts), np.int64)
    width = 1  # of each stretch of which ``values`` is the least, by now
    while True:
        fits = np.flatnonzero((lengths >= width) & (lengths < 2 * width))
        least[fits] = np.minimum(values[starts[fits]], values[stops[fits] - width])
        if lengths.max() < 2 * width:
            return least
        values = np.minimum(values[:-width], values[width:])
        width *= 2


def _lowest_before(groups: Longs, values: Longs) -> Longs:
    """The least of the values before each one in its group; ``MAX_WATERMARK`` for the first of a group.

    Groups are numbers that do not fall.
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    # Every group lies below the ones before it, so that their least values do not count in it.
    floors = np.cumsum(is_first) * len(distinct)
    running = np.minimum.accumulate(ranks - floors) + floors
    lowest = np.full(len(groups), MAX_WATERMARK)
    lowest[1:] = np.where(is_first[1:], MAX_WATERMARK, distinct[running[:-1]])
    return lowest


@dataclass(frozen=True)
class FollowedSessions:
    """The outcome for the sessions of some keys.

    Attributes:
        fired: the sessions as they were when they fired, in no particular order.
        late_records: for each of these, the record that made it fire again; -1 where it fired at its end.
        fired_versions: what each of these held.
        left: the sessions that are still there, by key and end.
        left_versions: what each of these holds.
        refused: the records that came too late.
    """

    fired: Spans
    late_records: Longs
    fired_versions: Longs
    left: Spans
    left_versions: Longs
    refused: Longs


class _Session(LoggedWindow):
    """One session.

    Attributes:
        start: its first timestamp.
        end: the gap after its last timestamp.
        has_fired: whether it has fired since its end is what it is.
    """

    __slots__ = ("end", "has_fired", "start")

    def __init__(self, log: VersionLog, start: int, end: int, parts: Sequence[int] = ()) -> None:
        super().__init__(log, parts)
        self.start, self.end = start, end
        self.has_fired = False


class SessionFollower:
    """Follows the sessions of some keys through a stretch of input.

    Args:
        gap: how long after its last record a session ends, in milliseconds.
        lateness: how long after its end a session still takes records, in milliseconds.
        opened: the sessions that are there, by key and time; each is a part.
        passed: the ends up to which these have fired.
        discards: whether sessions drop what they hold when they fire. It is kept with them all the same, as it is
            not read of a session that has fired.
    """

    def __init__(self, gap: int, lateness: int, opened: Spans, passed: int, *, discards: bool) -> None:
        self._gap = gap
        self._lateness = lateness
        self._discards = discards
        self._log = VersionLog()
        self._opened = len(opened)
        self._fired: list[tuple[int, int, int, int, int]] = []
        self._refused: list[int] = []
        self._sessions: dict[int, list[_Session]] = {}
        for key, start, end in zip(opened.keys.tolist(), opened.starts.tolist(), opened.ends.tolist(), strict=True):
            session = _Session(self._log, start, end, (self._log.new_part(),))
            session.has_fired = end <= passed
            if session.has_fired:
                self._discard(session)
            self._sessions.setdefault(key, []).append(session)

    def follow(self, records: ArrivedTimes, rows: Longs, watermark: int) -> FollowedSessions:
        """Adds records, and brings event time to a watermark.

        Args:
            records: all records.
            rows: those that are of the keys.
            watermark: the watermark.
        """
        order = rows[np.argsort(records.keys[rows], kind="stable")]
        columns = (column[order].tolist() for column in (records.keys, records.timestamps, records.watermarks))
        for key, of_key in groupby(zip(*columns, order.tolist(), strict=True), itemgetter(0)):
            sessions = self._sessions.setdefault(key, [])
            for _, timestamp, met, row in of_key:
                self._advance(key, sessions, met)
                self._add(key, sessions, timestamp, met, row)
        for key, sessions in self._sessions.items():
            self._advance(key, sessions, watermark)
        return self._found()

    def versions(self, aggregators: AggregatorList, chunk: Chunk, opened: Columns) -> Columns:
        """The accumulators of all versions.

        Args:
            aggregators: what sessions remember.
            chunk: all records.
            opened: what the sessions held that were there.
        """
        if not self._log.has_versions:
            return opened
        added = self._log.parts_of_records(lambda groups: chunk.accumulated(aggregators, groups))
        return self._log.versions(aggregators, [(np.arange(self._opened), opened), added])

    def _advance(self, key: int, sessions: list[_Session], watermark: int) -> None:
        """Fires what has come to its end, and drops what takes no more records."""
        for session in sessions:
            if not session.has_fired and session.end - 1 <= watermark:
                session.has_fired = True
                self._fire(key, session, -1)
        if any(self._is_over(session.end, watermark) for session in sessions):
            sessions[:] = [session for session in sessions if not self._is_over(session.end, watermark)]

    def _is_over(self, end: int, watermark: int) -> bool:
        return min(end - 1 + self._lateness, MAX_WATERMARK) <= watermark

    def _add(self, key: int, sessions: list[_Session], timestamp: int, watermark: int, row: int) -> None:
        start, end = timestamp, timestamp + self._gap
        met = [session for session in sessions if session.start <= end and start <= session.end]
        if not met:
            if self._is_over(end, watermark):
                self._refused.append(row)
                return
            met = [_Session(self._log, start, end)]
            sessions.extend(met)
        session = self._merged(sessions, met)
        session.start, session.end = min(start, session.start), max(end, session.end)
        session.add(self._log, row)
        session.has_fired = session.end - 1 <= watermark
        if session.has_fired:
            self._fire(key, session, row)

    @staticmethod
    def _merged(sessions: list[_Session], met: list[_Session]) -> _Session:
        """The one session that several become: the one with the most parts absorbs the others."""
        session = max(met, key=lambda each: len(each.parts))
        for other in met:
            if other is not session:
                session.start, session.end = min(other.start, session.start), max(other.end, session.end)
                session.take(other.parts)
                sessions.remove(other)
        return session

    def _fire(self, key: int, session: _Session, late_record: int) -> None:
        self._fired.append((key, session.start, session.end, late_record, session.now(self._log)))
        self._discard(session)

    def _discard(self, session: _Session) -> None:
        """Drops what a session holds that has fired, where sessions do so."""
        if self._discards:
            session.now(self._log)
            session.begin(self._log)

    def _found(self) -> FollowedSessions:
        fired = np.array(self._fired, np.int64).reshape(-1, 5).T
        left = [
            (key, session.start, session.end, session.now(self._log))
            for key, sessions in self._sessions.items()
            for session in sessions
        ]
        kept = np.array(sorted(left, key=itemgetter(0, 2)), np.int64).reshape(-1, 4).T
        refused = np.array(self._refused, np.int64)
        return FollowedSessions(Spans(*fired[:3]), fired[3], fired[4], Spans(*kept[:3]), kept[3], refused)
