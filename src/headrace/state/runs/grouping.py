"""Grouping rows by (time, key): one sort of packed integers, then segments that reductions run over.

The order of groups is (time, hash, key) everywhere, where the time of a window is its end: in a batch's partial
aggregates, in the runs of ordered tables, in what a firing emits. So runs merge by the same kernel, and equal input
gives equal bytes.

Why numpy, for every type of key: the exact sums of floats need the rows group by group, and state needs the groups in
order. For 250,000 rows, sorting 64-bit integers that hold (time, high bits of the hash, row) takes 3 to 6 ms, a
stable ``argsort`` of the hashes 20 ms. pyarrow's ``group_by`` gives neither: with a million keys it takes about as long
as all of this (19 to 32 ms), and only with 10,000 keys is it faster (3 to 11 ms against 12 to 18).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Doubles = npt.NDArray[np.float64]

Longs = npt.NDArray[np.int64]

Hashes = npt.NDArray[np.uint64]

Mask = npt.NDArray[np.bool_]

Terms = Callable[[Doubles], Iterator[tuple[int, Doubles]]]


BLOCK_ROWS = 1 << 15
"""The rows that are worked on at a time: an array of them, and a few more, fit into a core's cache."""
_WORD = 64
_SIGNED_WORD = 63
_FEWEST_HASH_BITS = 20
"""With fewer bits of the hash in a packed word too many keys share them; then a plain sort is faster."""


@dataclass(frozen=True)
class Segments:
    """Consecutive, non-empty stretches of ``total`` rows: one a group.

    Attributes:
        starts: where each stretch begins.
        total: how many rows there are.
    """

    starts: Longs
    total: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def are_single(self) -> bool:
        """Return whether every group has exactly one row, so that reducing changes nothing."""
        return len(self.starts) == self.total

    @cached_property
    def counts(self) -> Longs:
        """Return how many rows each group has."""
        return np.diff(self.starts, append=self.total)

    @cached_property
    def ids(self) -> Longs:
        """The group of each row."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    @property
    def first_rows(self) -> Longs:
        """The earliest row of each group."""
        return self.starts

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``ufunc`` over the values of each group."""
        if self.are_single:
            return values
        return np.asarray(ufunc.reduceat(values, self.starts)) if self.total else values[:0]

    def sums_of(self, terms: Terms, values: Doubles) -> dict[int, Doubles]:
        """The sums of what ``terms`` makes of the values of each group, by the numbers that it gives.

        It may be called several times, with some of the values each time.
        """
        return {number: self.reduce(np.add, term) for number, term in terms(values)}


@dataclass(frozen=True)
class Groups:
    """Rows brought into the order of their groups; rows of one group keep the order in which they came.

    Attributes:
        order: the rows, group after group.
        segments: where the groups begin in ``order``.
    """

    order: Longs
    segments: Segments

    @property
    def first_rows(self) -> Longs:
        """The earliest row of each group."""
        return self.order[self.segments.starts]

    @property
    def numbers(self) -> Longs:
        """The number of each row's group."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = self.segments.ids
        return found

    def blocks(self, rows: int = BLOCK_ROWS) -> "Iterator[Groups]":
        """The groups in stretches of about ``rows`` rows, so that the arrays of a calculation stay in the cache."""
        starts, total = self.segments.starts, self.segments.total
        if total <= rows + rows // 2:
            yield self
            return
        cuts = np.unique(np.searchsorted(starts, np.arange(0, total, rows)))
        bounds = [*cuts[cuts < len(starts)].tolist(), len(starts)]
        for first, last in pairwise(bounds):
            start = int(starts[first])
            stop = int(starts[last]) if last < len(starts) else total
            yield Groups(self.order[start:stop], Segments(starts[first:last] - start, stop - start))


def group_rows(times: Longs, hashes: Hashes, *identity: pa.Array) -> Groups:
    """Groups rows by time and key, in the order (time, hash, key, arrival).

    Args:
        times: what comes first in the order: the end of each row's window, say.
        hashes: the hash of each row's key: equal keys have equal hashes.
        identity: each row's key (int64, string or binary, no nulls), to tell keys apart that share a hash; and its
            namespace, where groups and their order are to depend on that as well.
    """
    total = len(times)
    if not total:
        return Groups(np.empty(0, np.int64), Segments(np.empty(0, np.int64), 0))
    order, prefix_changes = _sorted_by_prefix(times, hashes)
    sorted_hashes = hashes[order]
    hash_changes = sorted_hashes[1:] != sorted_hashes[:-1]
    split = hash_changes & ~prefix_changes
    if split.any():  # different hashes that agree in their high bits may have come out interleaved
        _resort(order, prefix_changes, split, hashes)
        sorted_hashes = hashes[order]
        hash_changes = sorted_hashes[1:] != sorted_hashes[:-1]
    changes = prefix_changes | hash_changes
    for column in identity:
        if changes.all():
            break
        differs = _value_changes(column, order) & ~changes
        if differs.any():
            _resort(order, changes, differs, value_ranks(column))
            changes |= _value_changes(column, order)
    return Groups(order, Segments(_starts(changes), total))


def group_keys(hashes: Hashes, keys: pa.Array) -> Groups:
    """Groups rows by key alone, in the order (hash, key, arrival)."""
    return group_rows(np.broadcast_to(np.int64(0), len(hashes)), hashes, keys)


def group_times(times: Longs) -> tuple[Longs, Longs]:
    """The different values of a sorted column of times, and where each begins (with the total as one more)."""
    if not len(times) or times[0] == times[-1]:
        return times[:1], np.unique((0, len(times)))
    starts = _starts(times[1:] != times[:-1])
    return times[starts], np.append(starts, len(times))


def times_bounds(times: Longs) -> tuple[int, int]:
    """The first and the last of some times, of which there is one at least."""
    if times.strides == (0,):  # one that is repeated
        return int(times[0]), int(times[0])
    return int(times.min()), int(times.max())


def value_ranks(values: pa.Array) -> Longs:
    """Numbers that compare as the values do."""
    ranks: Longs = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def sorted_by(numbers: Longs, values: Longs) -> Longs:
    """The order of rows by numbers, which are not negative, then by values; stable."""
    return sorted_pairs(numbers, values)[0]


def in_order(*columns: Longs) -> Longs:
    """A stable sort of rows by integer columns, the most significant first."""
    total = len(columns[0])
    if not total:
        return np.empty(0, np.int64)
    bounds = [(int(column.min()), int(column.max())) for column in columns]
    widths = [(high - low).bit_length() for low, high in bounds]
    row_bits = (total - 1).bit_length()
    if sum(widths) + row_bits > _SIGNED_WORD:
        widest = int(np.argmax(widths))
        if sum(widths) - widths[widest] + 2 * row_bits > _SIGNED_WORD:
            return np.lexsort(columns[::-1])
        return in_order(*columns[:widest], _ranks(columns[widest]), *columns[widest + 1 :])
    packed = np.zeros(total, np.int64)
    for column, (low, _), width in zip(columns, bounds, widths, strict=True):
        if width:
            packed <<= width
            packed |= column - low
    packed <<= row_bits
    packed |= np.arange(total)
    packed.sort()
    packed &= (1 << row_bits) - 1
    return packed


def _ranks(numbers: Longs) -> Longs:
    """The dense ranks of numbers."""
    order = np.argsort(numbers)
    own = numbers[order]
    ranks = np.empty_like(numbers)
    ranks[order] = np.cumsum(np.append(False, own[1:] != own[:-1]))
    return ranks


def sorted_pairs(numbers: Longs, values: Longs) -> tuple[Longs, Longs, Longs]:
    """The order of rows by numbers, which are not negative, then by values; and both in that order."""
    total = len(numbers)
    if not total:
        return np.empty(0, np.int64), numbers, values
    lowest, row_bits = int(values.min()), (total - 1).bit_length()
    value_bits = (int(values.max()) - lowest).bit_length()
    if int(numbers.max()).bit_length() + value_bits + row_bits > _SIGNED_WORD:
        order = np.lexsort((values, numbers))
        return order, numbers[order], values[order]
    # Sorting the integers themselves is several times as fast as finding the order that sorts them.
    packed = (numbers << value_bits | (values - lowest)) << row_bits
    packed |= np.arange(total)
    packed.sort()
    order = packed & ((1 << row_bits) - 1)
    packed >>= row_bits
    return order, packed >> value_bits, (packed & ((1 << value_bits) - 1)) + lowest


def _sorted_by_prefix(times: Longs, hashes: Hashes) -> tuple[Longs, Mask]:
    """Rows in the order (time, leading bits of the hash, row), and where the first two change."""
    total = len(times)
    # Records come roughly in the order of time, so there are few stretches of equal window ends.
    starts = _starts(times[1:] != times[:-1])
    distinct = np.unique(times[starts])
    row_bits = (total - 1).bit_length()
    time_bits = (len(distinct) - 1).bit_length()
    hash_bits = _WORD - row_bits - time_bits
    if hash_bits < _FEWEST_HASH_BITS:
        order = np.lexsort((hashes, times))
        sorted_times, sorted_hashes = times[order], hashes[order]
        return order, (sorted_times[1:] != sorted_times[:-1]) | (sorted_hashes[1:] != sorted_hashes[:-1])
    packed = hashes >> np.uint64(_WORD - hash_bits)
    packed <<= np.uint64(row_bits)
    packed |= np.arange(total, dtype=np.uint64)
    if time_bits:
        ranks = np.repeat(np.searchsorted(distinct, times[starts]), np.diff(starts, append=total))
        packed |= ranks.astype(np.uint64) << np.uint64(_WORD - time_bits)
    packed.sort()
    order = (packed & np.uint64((1 << row_bits) - 1)).view(np.int64)
    packed >>= np.uint64(row_bits)
    return order, packed[1:] != packed[:-1]


def _resort(order: Longs, changes: Mask, violations: Mask, sort_keys: npt.NDArray[Any]) -> None:
    """Sorts those stretches between ``changes`` that hold a violation by (sort key, row), in place."""
    stretches = np.concatenate(([0], np.cumsum(changes)))
    is_bad = np.zeros(int(stretches[-1]) + 1, np.bool_)
    is_bad[stretches[1:][violations]] = True
    places = np.flatnonzero(is_bad[stretches])
    rows = order[places]
    order[places] = rows[np.lexsort((rows, sort_keys[rows], stretches[places]))]


def _value_changes(column: pa.Array, order: Longs) -> Mask:
    """Return where a row's value differs from that of the row before, in the given order."""
    if pa.types.is_int64(column.type):
        values = column.to_numpy()[order]
        return np.asarray(values[1:] != values[:-1])
    taken = column.take(pa.array(order))
    return np.asarray(pc.not_equal(taken[1:], taken[:-1]).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _starts(changes: Mask) -> Longs:
    """Return where stretches begin, given for each row but the first whether it begins one."""
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(changes) + 1))


@dataclass(frozen=True)
class Placed:
    """Groups whose rows lie anywhere, each with a place, of which many may be empty; else as ``Segments``.

    Attributes:
        places: the place of each row.
        all_counts: how many rows each place has.
        used: the places that have some, in order: the groups.
    """

    places: Longs
    all_counts: Longs
    used: Longs

    @staticmethod
    def of(places: Longs, count: int) -> "Placed":
        """Rows with places below ``count``."""
        counts = np.bincount(places, minlength=count)
        return Placed(places, counts, np.flatnonzero(counts))

    def __len__(self) -> int:
        return len(self.used)

    @property
    def total(self) -> int:
        """Return how many rows there are."""
        return len(self.places)

    @property
    def are_single(self) -> bool:
        """False: rows would have to be sorted even where each is a group."""
        return False

    @property
    def counts(self) -> Longs:
        """Return how many rows each group has."""
        return self.all_counts[self.used]

    @cached_property
    def ids(self) -> Longs:
        """The group of each row."""
        groups = np.empty(len(self.all_counts), np.int64)
        groups[self.used] = np.arange(len(self.used))
        return groups[self.places]

    @cached_property
    def first_rows(self) -> Longs:
        """The earliest row of each group."""
        rows = np.empty(len(self.all_counts), np.int64)
        rows[self.places[::-1]] = np.arange(len(self.places))[::-1]  # of several rows the last one written stays
        return rows[self.used]

    def reduce(self, ufunc: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``ufunc``, which does not depend on the order, over the values of each group."""
        found = np.full(len(self.all_counts), ufunc.identity or 0, values.dtype)
        if ufunc.identity is None:  # the smallest or the largest: a value that counts twice does no harm
            found[self.places] = values
        with np.errstate(invalid="ignore"):  # a NaN among the values is no error
            ufunc.at(found, self.places, values)
        return found[self.used]

    def sums_of(self, terms: Terms, values: Doubles) -> dict[int, Doubles]:
        """The sums of what ``terms`` makes of the values of each group; of a few at a time, within the cache."""
        found: dict[int, Doubles] = {}
        for start in range(0, self.total, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            for number, term in terms(values[rows]):
                if number not in found:
                    found[number] = np.zeros(len(self.all_counts))
                np.add.at(found[number], self.places[rows], term)
        return {number: sums[self.used] for number, sums in found.items()}


RowGroups = Segments | Placed
"""Rows that fall into groups, wherever these lie."""
