"""Rows that are added and retracted while many records are handled at once: which are there at each record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import codes_of
from headrace.operators.aggregates.aggregator import running_sums
from headrace.state.runs.grouping import Segments, in_order

if TYPE_CHECKING:
    from headrace.operators.changelog.keyed_changes import Arrived

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lifetimes:
    """The lifetimes of rows, by positions in a sequence of all rows and records, key by key.

    Attributes:
        segments: the positions of each key.
        begins: whether a row begins at each position.
        taken: the position at which the row began that is retracted at each position; -1 where none is.
    """

    segments: Segments
    begins: Mask
    taken: Longs

    @staticmethod
    def of(arrived: Arrived, fields: Sequence[int]) -> Lifetimes:
        """The lifetimes of rows: of equal rows the one that came first is retracted first.

        Args:
            arrived: the rows.
            fields: the columns by which rows are equal.
        """
        same = EqualRows.of(arrived, fields)
        counts, is_kept = same.counts
        retracts = np.flatnonzero(same.takes_back & is_kept)
        adds = ~same.takes_back
        before: Longs = np.cumsum(adds) - adds
        numbers = running_sums((same.takes_back & is_kept).astype(np.int64), same.segments) - 1
        firsts: Longs = before[same.segments.starts][same.segments.ids]
        taken = np.full(len(counts), -1)
        taken[same.order[retracts]] = same.order[adds][firsts[retracts] + numbers[retracts]]
        begins = np.zeros(len(counts), np.bool_)
        begins[same.order[adds]] = True
        return Lifetimes(arrived.segments, begins, taken)

    @cached_property
    def retracts(self) -> Longs:
        """The positions at which rows are retracted."""
        return np.flatnonzero(self.taken >= 0)

    @cached_property
    def steps(self) -> Longs:
        """By how much the number of rows of the key changes at each position."""
        steps = self.begins.astype(np.int64)
        steps[self.retracts] = -1
        return steps

    @cached_property
    def counts(self) -> Longs:
        """The number of rows of the key after each position."""
        return running_sums(self.steps, self.segments)

    @cached_property
    def ends(self) -> Longs:
        """The position at which each row is retracted: that of the next key if it stays, and -1 for no row."""
        stops = self.segments.starts + self.segments.counts
        ends = np.where(self.begins, stops[self.segments.ids], -1)
        ends[self.taken[self.retracts]] = self.retracts
        return ends

    @property
    def left(self) -> Longs:
        """The positions of the rows that stay."""
        stops = self.segments.starts + self.segments.counts
        return np.flatnonzero(self.begins & (self.ends == stops[self.segments.ids]))

    def last_there(self, positions: Longs) -> Longs:
        """The last row of the key that is there after each position at which one is retracted; there must be one."""
        return last_above(self.ends, positions, positions)


@dataclass(frozen=True)
class EqualRows:
    """All rows and records, key by key, and in each key those that are equal one after the other.

    Attributes:
        order: their positions in the sequence of all.
        segments: the stretches of equal ones.
        takes_back: which of them are retractions.
    """

    order: Longs
    segments: Segments
    takes_back: Mask

    @staticmethod
    def of(arrived: Arrived, fields: Sequence[int]) -> EqualRows:
        """The rows and records.

        Args:
            arrived: the rows.
            fields: the columns by which rows are equal.
        """
        columns = [arrived.rows.column(field) for field in fields]
        codes = codes_of(pa.StructArray.from_arrays(columns, [str(field) for field in fields]))[arrived.sequence]
        order = in_order(arrived.of_keys, codes)
        is_first = np.diff(arrived.of_keys[order], prepend=-1) != 0
        is_first[1:] |= np.diff(codes[order]) != 0
        retracted = np.concatenate((np.zeros(len(arrived.stored), np.bool_), arrived.takes_back))
        segments = Segments(np.flatnonzero(is_first), len(order))
        return EqualRows(order, segments, retracted[arrived.sequence[order]])

    @cached_property
    def counts(self) -> tuple[Longs, Mask]:
        """Return how many of them are there after each, and which retractions are of a row that is there."""
        return counts_after(self.segments, np.where(self.takes_back, -1, 1))


def counts_after(groups: Segments, steps: Longs, before: Longs | None = None) -> tuple[Longs, Mask]:
    """Return how many rows a group has after each record, and which records count.

    One that retracts a row of a group without rows does not. So the count is the sum of steps, less the lowest that it
    has been below zero.

    Args:
        groups: the records of each group, in the order in which they came.
        steps: by how much each changes the number of rows of its group.
        before: how many rows each group has before; None for none.
    """
    sums = running_sums(steps, groups)
    if before is not None:
        sums += before[groups.ids]
    if (sums >= 0).all():
        return sums, np.ones(len(sums), np.bool_)
    # Each group lies below all values of the one before it, so that one pass finds the lowest of each.
    shift = (int(np.abs(steps).sum()) + 1) * groups.ids
    lowest = np.minimum.accumulate(np.minimum(sums, 0) - shift) + shift
    is_lower = np.diff(lowest, prepend=0) < 0
    is_lower[groups.starts] = lowest[groups.starts] < 0
    return sums - lowest, ~is_lower


def last_above(values: Longs, stops: Longs, bounds: Longs) -> Longs:
    """The last position before each stop whose value is above a bound; -1 where there is none."""
    levels = [values]
    while len(levels[-1]) > 1:
        pairs = levels[-1] if len(levels[-1]) % 2 == 0 else np.append(levels[-1], -1)
        levels.append(np.maximum(pairs[::2], pairs[1::2]))
    found, found_at = np.full(len(stops), -1), np.full(len(stops), -1)
    at, left = stops.copy(), np.arange(len(stops))
    for number, level in enumerate(levels):
        left = left[at[left] > 0]
        some = left[(at[left] & 1) == 1]
        some = some[level[at[some] - 1] > bounds[some]]
        found[some], found_at[some] = at[some] - 1, number
        left = left[found_at[left] < 0]
        at >>= 1
    for number in range(len(levels) - 1, 0, -1):
        some = np.flatnonzero(found_at >= number)
        right = 2 * found[some] + 1
        below = np.append(levels[number - 1], -1)
        is_right = below[np.minimum(right, len(below) - 1)] > bounds[some]
        found[some] = np.where(is_right, right, right - 1)
    return found


class RowsInOrder:
    """The rows of keys that are there before each position, in an order: a wavelet matrix of their places.

    Retractions count -1. Places are those in the order of all keys, of which each has the same range as its positions.

    Args:
        segments: the positions of each key.
        places: the place of the row that begins or is retracted at each position.
        steps: 1 where a row begins, -1 where one is retracted, 0 where nothing happens.
    """

    def __init__(self, segments: Segments, places: Longs, steps: Longs) -> None:
        self._starts = segments.starts[segments.ids]
        self._places, self._steps = (places - self._starts).astype(np.int32), steps.astype(np.int32)
        self._bits = max(int(segments.counts.max(initial=0)) - 1, 1).bit_length()

    def before(self, positions: Longs, places: Longs) -> Longs:
        """Return how many rows of its key have lower places, before each position."""
        found = np.zeros(len(places), np.int32)
        places = (places - self._starts[positions]).astype(np.int32)
        low, high = self._ranges(positions)
        for bit, zeros, sums in self._levels():
            is_one = (places >> bit) & 1 == 1
            lows, highs = zeros[low], zeros[high]
            found += np.where(is_one, sums[highs] - sums[lows], 0)
            low, high = _next(is_one, zeros[-1], low, high, lows, highs)
        return found.astype(np.int64)

    def at(self, positions: Longs, ranks: Longs) -> Longs:
        """The place of the row of its key with a rank, counted from 0, before each position."""
        found, left = np.zeros(len(ranks), np.int32), ranks.astype(np.int32)
        low, high = self._ranges(positions)
        for bit, zeros, sums in self._levels():
            lows, highs = zeros[low], zeros[high]
            count = sums[highs] - sums[lows]
            is_one = left >= count
            found |= is_one.astype(np.int32) << bit
            left -= np.where(is_one, count, 0)
            low, high = _next(is_one, zeros[-1], low, high, lows, highs)
        return self._starts[positions] + found

    def _ranges(self, positions: Longs) -> tuple[Ints, Ints]:
        return self._starts[positions].astype(np.int32), positions.astype(np.int32)

    def _levels(self) -> Iterator[tuple[int, Ints, Ints]]:
        """From the highest bit of places down: how many have a zero before each position, and the sums of their steps.

        In the next level, those with a zero come first.
        """
        places, steps = self._places, self._steps
        for bit in range(self._bits - 1, -1, -1):
            is_zero = (places >> bit) & 1 == 0
            order = np.concatenate((np.flatnonzero(is_zero), np.flatnonzero(~is_zero)))
            places, steps = places[order], steps[order]
            yield bit, _sums(is_zero), _sums(steps)


def _sums(values: npt.NDArray[np.generic]) -> Ints:
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, out=sums[1:])
    return sums


def _next(is_one: Mask, zeros: np.int32, low: Ints, high: Ints, lows: Ints, highs: Ints) -> tuple[Ints, Ints]:
    """The ranges in the next level of a wavelet matrix."""
    return np.where(is_one, low - lows + zeros, lows), np.where(is_one, high - highs + zeros, highs)
