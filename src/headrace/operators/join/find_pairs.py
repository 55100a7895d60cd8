"""Which records of two inputs match, all at once: binary search in sections that are sorted by hash, key and time.

Every record that has arrived looks for those of the other input that came before it, in what is kept of older ones and
among those that have arrived with it. So a pair is found once, by the later one, whose place in the order of arrival
and whose watermark it has. The pairs of one record come in the order of time of the others, and where that is the same
as they came. A key with very many records costs time, not memory: pairs are laid out some at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.arrays import concat, gather
from headrace.operators.join.interval import LEFT, RIGHT
from headrace.operators.join.join_log import LINGERS, RECORD, TIME
from headrace.state.runs.grouping import sorted_by
from headrace.state.runs.layout import HASH, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.join.interval import JoinInterval
    from headrace.state.keys import KeyColumn
    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

PAIRS: Final = 1 << 17
"""About so many pairs are laid out at a time."""

_LAST_HASH: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class ArrivedSide:
    """Records of one input, of which there may be none, by hash, key and time.

    Attributes:
        section: their rows, as a log has them.
        keys: the different keys.
        of_keys: which of them each record has.
        ordinals: the place of each in the order in which records of both inputs came.
    """

    section: Section
    keys: KeyColumn
    of_keys: Longs
    ordinals: Longs


@dataclass(frozen=True)
class Pairs:
    """Matches, in order.

    Attributes:
        left: the records of the left input, as one column.
        right: those of the right input.
        left_times: the timestamps of the former.
        right_times: those of the latter.
        watermarks: the watermark that the later one of each pair has met.
    """

    left: pa.Array
    right: pa.Array
    left_times: Longs
    right_times: Longs
    watermarks: Longs

    def __len__(self) -> int:
        return len(self.watermarks)

    @property
    def times(self) -> Longs:
        """The timestamp of each pair: the larger one of the two."""
        return np.maximum(self.left_times, self.right_times)


def find_pairs(
    interval: JoinInterval,
    kept: Sequence[Sequence[Section]],
    arrived: Sequence[ArrivedSide],
    watermarks: Longs,
) -> Iterator[Pairs]:
    """The pairs that records make which have arrived.

    Args:
        interval: which times match.
        kept: of each input what came before, oldest first.
        arrived: of each input the records that have arrived.
        watermarks: the watermark that each of these has met, in the order in which they came.
    """
    sources = [[*sections, side.section] for sections, side in zip(kept, arrived, strict=True)]
    found = [
        _Candidates.of(interval, later, arrived[later], source, number)
        for later in (LEFT, RIGHT)
        for number, source in enumerate(sources[1 - later])
    ]
    counts = np.zeros(len(watermarks), np.int64)
    for candidates in found:
        counts[candidates.ordinals] += candidates.stops - candidates.starts
    rows = np.empty(len(watermarks), np.int64)
    for side in arrived:
        rows[side.ordinals] = np.arange(len(side.ordinals))
    layout = _PairLayout(interval, sources, arrived, watermarks, rows)
    for start, stop in portions(counts):
        matches = layout.matches([candidates.slice(start, stop) for candidates in found])
        for first in range(0, len(matches), PAIRS):
            yield layout.pairs(matches.slice(first, first + PAIRS))


@dataclass(frozen=True)
class _Candidates:
    """Ranges of rows of one source that match records of the other input by key and time.

    Attributes:
        later: the input of the records that look.
        source: the number of the source among those of the other input.
        ordinals: the places of the records in the order of arrival, ascending.
        starts: where the rows begin that match each.
        stops: where they end.
    """

    later: int
    source: int
    ordinals: Longs
    starts: Longs
    stops: Longs

    @staticmethod
    def of(interval: JoinInterval, later: int, side: ArrivedSide, source: Section, number: int) -> _Candidates:
        """What the records of one input find in a source of the other one."""
        first, last = interval.seen_from(later)
        times = side.section.column(TIME).to_numpy()
        found, starts, stops = _ranges(source, side.keys, side.of_keys, times + first, times + last)
        ordinals = side.ordinals[found]
        order = np.argsort(ordinals)
        return _Candidates(later, number, ordinals[order], starts[order], stops[order])

    def slice(self, start: int, stop: int) -> _Candidates:
        """Those of records from one place in the order of arrival up to another."""
        first, last = np.searchsorted(self.ordinals, (start, stop)).tolist()
        arrays = (array[first:last] for array in (self.ordinals, self.starts, self.stops))
        return _Candidates(self.later, self.source, *arrays)


@dataclass(frozen=True)
class _Matches:
    """Pairs: who found whom.

    Attributes:
        ordinals: the places of those that came later, in the order of arrival.
        sources: the source that each found the other one in.
        rows: its row there.
    """

    ordinals: Longs
    sources: Longs
    rows: Longs

    def __len__(self) -> int:
        return len(self.ordinals)

    def slice(self, start: int, stop: int) -> _Matches:
        """Some of them."""
        return _Matches(self.ordinals[start:stop], self.sources[start:stop], self.rows[start:stop])


@dataclass(frozen=True)
class _PairLayout:
    """Makes pairs of candidates.

    Attributes:
        interval: which times match.
        sources: of each input all sections, the one of the records that have arrived last.
        arrived: these.
        watermarks: their watermarks, in the order of arrival.
        rows: their rows in their section.
    """

    interval: JoinInterval
    sources: Sequence[Sequence[Section]]
    arrived: Sequence[ArrivedSide]
    watermarks: Longs
    rows: Longs

    def matches(self, found: Sequence[_Candidates]) -> _Matches:
        """Those candidates that came before, and were still kept; in order."""
        parts = [self._matches_of(candidates) for candidates in found if len(candidates.ordinals)]
        if not parts:
            return _Matches(*(np.empty(0, np.int64) for _ in range(3)))
        ordinals, sources, rows, times = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = sorted_by(ordinals - ordinals.min(initial=len(self.watermarks)), times)
        return _Matches(ordinals[order], sources[order], rows[order])

    def _matches_of(self, found: _Candidates) -> tuple[Longs, Longs, Longs, Longs]:
        lengths = found.stops - found.starts
        ordinals = np.repeat(found.ordinals, lengths)
        rows = np.repeat(found.starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(ordinals))
        other = 1 - found.later
        source = self.sources[other][found.source]
        times = source.column(TIME).to_numpy()[rows]
        is_match = self._is_kept(source, rows, times + self.interval.kept(other), self.watermarks[ordinals])
        if found.source == len(self.sources[other]) - 1:
            is_match &= self.arrived[other].ordinals[rows] < ordinals
        ordinals, rows, times = ordinals[is_match], rows[is_match], times[is_match]
        return ordinals, np.full(len(ordinals), found.source), rows, times

    @staticmethod
    def _is_kept(source: Section, rows: Longs, ends: Longs, watermarks: Longs) -> Mask:
        is_kept: Mask = watermarks < ends
        at_end = np.flatnonzero(watermarks == ends)
        if len(at_end):
            is_kept[at_end] = source.take(LINGERS, rows[at_end]).to_numpy(zero_copy_only=False)
        return is_kept

    def pairs(self, matches: _Matches) -> Pairs:
        """The records of pairs."""
        is_left = np.zeros(len(self.rows), np.bool_)
        is_left[self.arrived[LEFT].ordinals] = True
        found_by_left, own = is_left[matches.ordinals], self.rows[matches.ordinals]
        records, times = [], []
        for side, is_finder in ((LEFT, found_by_left), (RIGHT, ~found_by_left)):
            sources = np.where(is_finder, len(self.sources[side]) - 1, matches.sources)
            places = np.where(is_finder, own, matches.rows)
            records.append(_gather(self.sources[side], RECORD, sources, places))
            times.append(_gather(self.sources[side], TIME, sources, places).to_numpy())
        (left, right), (left_times, right_times) = records, times
        return Pairs(left, right, left_times, right_times, self.watermarks[matches.ordinals])


def portions(counts: Longs) -> Iterator[tuple[int, int]]:
    """Cuts records where about as many candidates as are laid out at a time have come, given how many each has."""
    totals = np.cumsum(counts)
    start, before = 0, 0
    while start < len(totals) and before < totals[-1]:
        stop = max(start + 1, int(np.searchsorted(totals, before + PAIRS, side="right")))
        yield start, stop
        start, before = stop, int(totals[stop - 1])


def _ranges(source: Section, keys: KeyColumn, of_keys: Longs, lows: Longs, highs: Longs) -> tuple[Longs, Longs, Longs]:
    """Which probes find rows of their key from ``lows`` to ``highs``, and from where to where."""
    firsts, lasts = _ranges_of_keys(source, keys)
    found = np.flatnonzero((firsts < lasts)[of_keys])
    if not len(found):
        return found, found, found
    times = source.column(TIME).to_numpy()
    ends = lasts[of_keys[found]]
    starts = _bisect(times, firsts[of_keys[found]], ends, lows[found])
    stops = _bisect(times, starts, ends, highs[found] + 1)
    is_any = starts < stops
    return found[is_any], starts[is_any], stops[is_any]


def _bisect(times: Longs, starts: Longs, stops: Longs, values: Longs) -> Longs:
    """In each of some sorted ranges of times, where those begin that are not below a value."""
    lows, highs = starts.copy(), stops.copy()
    searched = np.flatnonzero(lows < highs)
    while len(searched):
        middles = (lows[searched] + highs[searched]) >> 1
        is_below = times[middles] < values[searched]
        lows[searched[is_below]] = middles[is_below] + 1
        highs[searched[~is_below]] = middles[~is_below]
        searched = searched[lows[searched] < highs[searched]]
    return lows


def _ranges_of_keys(source: Section, keys: KeyColumn) -> tuple[Longs, Longs]:
    """From where to where the rows of different keys are, which are by hash and key."""
    hashes = keys.hashes
    firsts = source.lower_bounds(HASH, hashes)
    lasts = source.lower_bounds(HASH, hashes + np.uint64(1))
    lasts[hashes == _LAST_HASH] = source.rows
    if pa.types.is_int64(keys.values.type):
        return firsts, lasts  # different integers have different hashes
    found = np.flatnonzero(firsts < lasts)
    wanted = keys.values.take(pa.array(found))
    is_key = np.ones(len(found), np.bool_)
    for rows in (firsts[found], lasts[found] - 1):
        is_key &= np.asarray(pc.equal(source.take(KEY, rows), wanted)).astype(bool)
    for number in found[~is_key].tolist():  # another key has the same hash
        firsts[number], lasts[number] = _range_among_others(source, keys.values[number], firsts[number], lasts[number])
    return firsts, lasts


def _range_among_others(source: Section, key: pa.Scalar, first: int, last: int) -> tuple[int, int]:
    rows = np.flatnonzero(np.asarray(pc.equal(source.rows_of(KEY, first, last), key)).astype(bool))
    return (first + int(rows[0]), first + int(rows[-1]) + 1) if len(rows) else (first, first)


def _gather(sources: Sequence[Section], name: str, numbers: Longs, rows: Longs) -> pa.Array:
    """Values of a column of several sections."""
    different = np.unique(numbers).tolist()
    if len(different) == 1:
        return sources[different[0]].take(name, rows)
    places = [np.flatnonzero(numbers == number) for number in different]
    taken = [sources[number].take(name, rows[at]) for number, at in zip(different, places, strict=True)]
    back = np.empty(len(rows), np.int64)
    back[np.concatenate(places)] = np.arange(len(rows))
    return gather(concat(taken), back)
