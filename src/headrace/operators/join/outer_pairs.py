"""Outer joins: records that no other one has matched, shown among the pairs when they are over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.operators.join import find_pairs
from headrace.operators.join.find_pairs import LEFT, RIGHT, MatchedRows, Pairs, gathered
from headrace.operators.join.join_log import RECORD, TIME
from headrace.operators.join.unmatched_log import OverRows, UnmatchedLog, arrived_over, over_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.operators.join.find_pairs import JoinInterval
    from headrace.operators.join.tagged import ArrivedRecords
    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]


class UnmatchedRecords:
    """Shows records that have not been matched, each once.

    Args:
        interval: which times match.
        logs: the groups of unmatched records, by the inputs whose records are to be shown.
    """

    def __init__(self, interval: JoinInterval, logs: Mapping[int, UnmatchedLog]) -> None:
        self._interval = interval
        self._logs = logs

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        for log in self._logs.values():
            log.begin_epoch()

    def end_epoch(self, anew: Sequence[bool]) -> None:
        """Puts what was found into state.

        Args:
            anew: of each input whether the log of the join was written anew.
        """
        for side, log in self._logs.items():
            log.end_epoch(anew=anew[side])

    def wait_until(self) -> int:
        """The watermark at which there may be some to be shown; above all watermarks if there is none."""
        return min(log.first_over for log in self._logs.values())

    def joined(
        self, sources: Sequence[Sequence[Section]], arrived: ArrivedRecords, before: int, watermark: int
    ) -> Iterator[Pairs]:
        """Pairs, and among them unmatched records; in the order of the watermarks that show them.

        Args:
            sources: of each input what came before, oldest first, and the section of the records that have arrived.
            arrived: these.
            before: the watermark when the first one came.
            watermark: how far it comes afterwards.
        """
        matched = MatchedRows(sources, self._logs.keys())
        over = _OverRecords(
            *over_in_order([self._over(side, sources[side], watermark) for side in (LEFT, RIGHT)]),
            sources,
            matched,
            tuple(map(self._interval.kept, (LEFT, RIGHT))),
            np.append(before, arrived.watermarks),
        )
        found = find_pairs.find_pairs(self._interval, sources, arrived.sides, arrived.watermarks, matched)
        yield from _merged(found, over)
        self._note(sources, matched, watermark)

    def _over(self, side: int, sections: Sequence[Section], watermark: int) -> OverRows:
        """The rows of one input that are over at a watermark, but for those that had been matched before."""
        if side not in self._logs:
            return OverRows.concat([])
        newest = len(sections) - 1
        stored = self._logs[side].over(sections[:newest], watermark)
        return OverRows.concat([stored, arrived_over(sections[newest], newest, self._interval.kept(side), watermark)])

    def _note(self, sources: Sequence[Sequence[Section]], matched: MatchedRows, watermark: int) -> None:
        """Keeps which rows have been matched, and which have not."""
        for side, log in self._logs.items():
            log.forget(watermark)
            *stored, arrived = sources[side]
            for number, section in enumerate(stored):
                log.remove(section, matched.rows(side, number), watermark)
            rows = np.arange(arrived.rows)
            log.add(arrived, rows[matched.are_unmatched(side, np.full(len(rows), len(stored)), rows)], watermark)


@dataclass
class _OverRecords:
    """Records that are over, in order, from which the next ones are taken.

    Attributes:
        over: their rows.
        sides: the input of each.
        sources: of each input all sections.
        matched: the rows that have been matched.
        kept: of each input for how long after its time a record is kept.
        watermarks: all that are met, ascending.
        start: how many have been taken.
    """

    over: OverRows
    sides: Longs
    sources: Sequence[Sequence[Section]]
    matched: MatchedRows
    kept: Sequence[int]
    watermarks: Longs
    start: int = 0

    def until(self, watermark: int) -> Iterator[tuple[Longs, Pairs]]:
        """Takes those that are over at a watermark, some at a time: when each is over, and what is shown of it."""
        last = int(np.searchsorted(self.over.ends, watermark, side="right"))
        while self.start < last:
            start, self.start = self.start, min(last, self.start + find_pairs.PAIRS)
            rows = np.arange(start, self.start)
            rows = rows[self._are_unmatched(rows)]
            if len(rows):
                yield self.over.ends[rows], self._shown(rows)

    def _are_unmatched(self, rows: Longs) -> npt.NDArray[np.bool_]:
        unmatched = np.zeros(len(rows), np.bool_)
        for side in (LEFT, RIGHT):
            of_side = self.sides[rows] == side
            own = rows[of_side]
            unmatched[of_side] = self.matched.are_unmatched(side, self.over.numbers[own], self.over.rows[own])
        return unmatched

    def _shown(self, rows: Longs) -> Pairs:
        (left, left_times), (right, right_times) = (self._of_side(side, rows) for side in (LEFT, RIGHT))
        sides = self.sides[rows]
        times = np.where(sides == LEFT, left_times, right_times) + np.array(self.kept)[sides]
        before = np.searchsorted(self.watermarks, self.over.ends[rows]) - 1
        return Pairs(left, right, left_times, right_times, times, self.watermarks[np.maximum(before, 0)])

    def _of_side(self, side: int, rows: Longs) -> tuple[pa.Array, Longs]:
        """The records of one input and their times; there are none at the places of records of the other one."""
        at = np.flatnonzero(self.sides[rows] == side)
        sections, numbers, own = self.sources[side], self.over.numbers[rows[at]], self.over.rows[rows[at]]
        times, places = np.full(len(rows), NO_TIMESTAMP), np.zeros(len(rows), np.int64)
        times[at], places[at] = gathered(sections, TIME, numbers, own).to_numpy(), np.arange(len(at))
        records = gathered(sections, RECORD, numbers, own)
        return records.take(pa.array(places, mask=times == NO_TIMESTAMP)), times


def _merged(found: Iterator[Pairs], over: _OverRecords) -> Iterator[Pairs]:
    """Pairs and unmatched records: these before whatever has met the watermark at which they are over."""
    for pairs in found:
        start = 0
        for ends, unmatched in over.until(int(pairs.watermarks[-1])):
            stop = int(np.searchsorted(pairs.watermarks, ends[-1]))
            order = np.argsort(np.concatenate((ends, pairs.watermarks[start:stop])), kind="stable")
            yield unmatched.followed_by(pairs.slice(start, stop)).take(order)
            start = stop
        if start < len(pairs):
            yield pairs.slice(start, len(pairs))
    for _, unmatched in over.until(MAX_WATERMARK):
        yield unmatched
