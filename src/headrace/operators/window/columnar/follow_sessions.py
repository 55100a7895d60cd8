"""Sessions of those keys whose late records matter, record by record; what they hold is worked out for all at once.

A session that has fired still takes records for the allowed lateness, and fires again for each, unless that makes it
end later: then it fires once more at its new end. It may also become one with others. So what a record does depends on
what all before it have done. Here that is followed on starts and ends alone. What sessions hold is noted meanwhile:
records that come to a session between two firings are a *part*; what a session holds at a firing is a *version*, which
is the version before and the parts that came since. Versions that follow one another are a *chain*.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from headrace.common.constants import MAX_WATERMARK
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.find_sessions import Spans
from headrace.operators.window.columnar.late_firings import running_merges
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.operators.aggregates.aggregator_list import AggregatorList
    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.operators.window.columnar.find_sessions import ArrivedTimes

    Longs = npt.NDArray[np.int64]
    Columns = list[pa.Array]


@dataclass(frozen=True)
class FollowedSessions:
    """What has become of the sessions of some keys.

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


class _Session:
    """One session.

    Attributes:
        start: its first timestamp.
        end: the gap after its last timestamp.
        has_fired: whether it has fired since its end is what it is.
        parts: all parts that it consists of.
        pending: those that its last version does not have.
        open_part: the part that records are added to; -1 when there is none.
        chain: the chain of its next versions.
        version: the last version, also where the session discarded what that held; -1 when there is none.
    """

    __slots__ = ("chain", "end", "has_fired", "open_part", "parts", "pending", "start", "version")

    def __init__(self, start: int, end: int, chain: int) -> None:
        self.start, self.end, self.chain = start, end, chain
        self.has_fired = False
        self.parts: list[int] = []
        self.pending: list[int] = []
        self.open_part = self.version = -1

    def take(self, parts: Iterable[int]) -> None:
        """Lets the session have more parts."""
        self.parts.extend(parts)
        self.pending.extend(parts)

    def discard(self, chain: int) -> None:
        """Lets the session hold nothing; its next versions are of another chain."""
        self.parts.clear()
        self.chain = chain


class SessionFollower:
    """Follows the sessions of some keys through a stretch of input.

    Args:
        gap: how long after its last record a session ends, in milliseconds.
        lateness: how long after its end a session still takes records, in milliseconds.
        opened: the sessions that are there, by key and time; each is a part.
        passed: the ends up to which these have fired.
        discards: whether sessions drop what they hold when they fire. It is kept with them all the same, as nobody asks
            a session that has fired for it.
    """

    def __init__(self, gap: int, lateness: int, opened: Spans, passed: int, *, discards: bool) -> None:
        self._gap = gap
        self._lateness = lateness
        self._discards = discards
        self._chains = len(opened)
        self._parts = len(opened)
        self._version_chains: list[int] = []
        self._pair_parts: list[int] = []
        self._pair_versions: list[int] = []
        self._rows: list[int] = []
        self._row_parts: list[int] = []
        self._fired: list[tuple[int, int, int, int, int]] = []
        self._refused: list[int] = []
        self._sessions: dict[int, list[_Session]] = {}
        rows = zip(opened.keys.tolist(), opened.starts.tolist(), opened.ends.tolist(), strict=True)
        for number, (key, start, end) in enumerate(rows):
            session = _Session(start, end, number)
            session.has_fired = end <= passed
            session.take((number,))
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
        parts = opened
        if not self._version_chains:
            return parts
        if self._rows:
            rows, of_rows = np.array(self._rows), np.array(self._row_parts)
            order = np.argsort(of_rows, kind="stable")
            made = chunk.accumulated(aggregators, Groups(rows[order], _stretches(of_rows[order])))
            parts = [concat([a, b]) for a, b in zip(opened, made, strict=True)]
        chains, versions = np.array(self._version_chains), np.array(self._pair_versions)
        order = np.argsort(chains[versions], kind="stable")
        versions, of_versions = versions[order], np.array(self._pair_parts)[order]
        segments = _stretches(versions)
        columns = aggregators.merge([gather(column, of_versions) for column in parts], segments)
        versions = versions[segments.starts]
        columns = running_merges(aggregators, columns, _stretches(chains[versions]))
        return [gather(column, np.argsort(versions)) for column in columns]

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
            met = [_Session(start, end, self._new_chain())]
            sessions.extend(met)
        session = self._merged(sessions, met)
        session.start, session.end = min(start, session.start), max(end, session.end)
        self._put(session, row)
        session.has_fired = session.end - 1 <= watermark
        if session.has_fired:
            self._fire(key, session, row)

    @staticmethod
    def _merged(sessions: list[_Session], met: list[_Session]) -> _Session:
        """The one session that some become: the one of the most parts takes in the others."""
        session = max(met, key=lambda each: len(each.parts))
        for other in met:
            if other is not session:
                session.start, session.end = min(other.start, session.start), max(other.end, session.end)
                session.take(other.parts)
                sessions.remove(other)
        return session

    def _put(self, session: _Session, row: int) -> None:
        if session.open_part < 0:
            session.open_part = self._parts
            self._parts += 1
            session.take((session.open_part,))
        self._rows.append(row)
        self._row_parts.append(session.open_part)

    def _fire(self, key: int, session: _Session, late_record: int) -> None:
        self._fired.append((key, session.start, session.end, late_record, self._version(session)))
        self._discard(session)

    def _discard(self, session: _Session) -> None:
        """Drops what a session holds that has fired, where sessions do so."""
        if self._discards:
            self._version(session)
            session.discard(self._new_chain())

    def _new_chain(self) -> int:
        self._chains += 1
        return self._chains - 1

    def _version(self, session: _Session) -> int:
        """What a session holds now."""
        if session.pending:
            session.version = len(self._version_chains)
            self._version_chains.append(session.chain)
            self._pair_parts.extend(session.pending)
            self._pair_versions.extend([session.version] * len(session.pending))
            session.pending = []
            session.open_part = -1
        return session.version

    def _found(self) -> FollowedSessions:
        fired = np.array(self._fired, np.int64).reshape(-1, 5).T
        left = [
            (key, session.start, session.end, self._version(session))
            for key, sessions in self._sessions.items()
            for session in sessions
        ]
        kept = np.array(sorted(left, key=itemgetter(0, 2)), np.int64).reshape(-1, 4).T
        refused = np.array(self._refused, np.int64)
        return FollowedSessions(Spans(*fired[:3]), fired[3], fired[4], Spans(*kept[:3]), kept[3], refused)


def _stretches(numbers: Longs) -> Segments:
    """The stretches of equal numbers."""
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    return Segments(starts, len(numbers))
