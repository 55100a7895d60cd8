"""The rows of a table by their keys, in which the keys of other rows are looked up batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, gather, is_fixed_width, unscaled_words, validity
from headrace.operators.join.find_pairs import portions
from headrace.state.keys.hashing import hash_array, hash_int64
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import rows_of_ranges

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SPARSEST: Final = 4096
"""A range of integers is a table of places up to so many places a row."""
_SMALLEST_RANGE: Final = 1 << 16
_LARGEST_TABLE: Final = 32 << 20
"""The most bytes of the places of slots, where there are fewer rows than slots."""
_PLACE_BYTES: Final = 4
_MOST_SLOTS: Final = _LARGEST_TABLE // _PLACE_BYTES
_FEWEST_SLOTS: Final = 1 << 8
_WORD_BITS: Final = 64
_ONE_ZERO: Final = 0.0
_NOBODY: Final = -1


def can_be_key(kind: pa.DataType) -> bool:
    """Return whether columns of a type can be looked up in."""
    return is_fixed_width(kind) or pa.types.is_decimal128(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)


class KeyIndex:
    """The rows of a table by their keys. A key with a NULL in it equals nothing.

    Integers in a narrow range are their own place in a table. Other keys are hashed, and those in one slot compared.

    Args:
        keys: the columns of the key; without any, all rows have one key.
        rows: the number of rows.
    """

    def __init__(self, keys: Sequence[pa.Array], rows: int) -> None:
        known = _Words.of(keys, rows)
        kept = None if known.valid is None else np.flatnonzero(known.valid)
        self._keys = list(keys)
        self._words = known.words
        self._slots = _Slots.of([each if kept is None else each[kept] for each in known.words], rows)
        self.is_exact = self._slots.is_exact and known.is_exact
        slots = self._slots.of_rows(known.words, rows)
        slots = slots if kept is None else slots[kept]
        self._places = np.full(self._slots.count + 1, _NOBODY, np.int32)
        ordinals = np.arange(len(slots), dtype=np.int32)
        self._places[slots] = ordinals
        self._lasts = self._places.take(slots)
        self._has_one = bool((self._lasts == ordinals).all())
        if self._has_one:
            if kept is not None:
                self._places[slots] = kept
            return
        counts = np.bincount(self._lasts, minlength=len(slots))
        self._counts, self._starts, self._kept = counts, np.cumsum(counts) - counts, kept

    @cached_property
    def _order(self) -> Longs:
        """The rows by the last one of their slot, and in their order; a question whether a key is there needs none."""
        order = in_order(self._lasts.astype(np.int64))
        return order if self._kept is None else self._kept[order]

    def pairs(self, keys: Sequence[pa.Array], rows: int) -> Iterator[tuple[Longs, Longs]]:
        """Pairs of a row with such a key and a row of the table with the same key, in chunks, in order of both.

        Args:
            keys: the columns of the keys.
            rows: how many there are.
        """
        given = _Words.of(keys, rows)
        slots = self._slots.of_rows(given.words, rows)
        if given.valid is not None:
            slots[~given.valid] = self._slots.count
        places = self._places.take(slots)
        found = np.flatnonzero(places >= 0)
        places = places.take(found)
        if self._has_one:
            yield self._equal(given, keys, found, places.astype(np.int64))
            return
        counts, starts = self._counts.take(places), self._starts.take(places)
        for start, stop in portions(counts):
            lengths = counts[start:stop]
            some, others = np.repeat(found[start:stop], lengths), rows_of_ranges(starts[start:stop], lengths)
            yield self._equal(given, keys, some, self._order.take(others))

    def have(self, keys: Sequence[pa.Array], rows: int) -> Mask:
        """True for each row whose key is in the table."""
        given = _Words.of(keys, rows)
        if self.is_exact:
            slots = self._slots.of_rows(given.words, rows)
            found = self._places.take(slots) >= 0
            return found if given.valid is None else found & given.valid
        found = np.zeros(rows, np.bool_)
        for some, _ in self.pairs(keys, rows):
            found[some] = True
        return found

    def _equal(self, given: _Words, keys: Sequence[pa.Array], some: Longs, others: Longs) -> tuple[Longs, Longs]:
        """Drop pairs whose keys share a slot without being equal."""
        if self.is_exact or not len(some):
            return some, others
        if given.is_exact:
            parts = zip(given.words, self._words, strict=True)
            is_equal = reduce(np.logical_and, (one.take(some) == other.take(others) for one, other in parts))
        else:
            columns = zip(keys, self._keys, strict=True)
            is_equal = reduce(
                np.logical_and,
                (np.asarray(pc.equal(gather(one, some), gather(other, others))) for one, other in columns),
            )
        return (some, others) if is_equal.all() else (some[is_equal], others[is_equal])


@dataclass(frozen=True)
class _Words:
    """The keys of some rows as integers.

    Attributes:
        words: for each column of the key, an integer for each row.
        valid: the rows without a NULL in their keys; None for all.
        is_exact: whether keys are equal where all their integers are.
    """

    words: list[Longs]
    valid: Mask | None
    is_exact: bool

    @staticmethod
    def of(keys: Sequence[pa.Array], rows: int) -> _Words:
        """The keys in columns."""
        known = [each for each in map(validity, keys) if each is not None]
        is_exact = all(is_fixed_width(column.type) for column in keys)
        words = [_words(column) for column in keys] or [np.zeros(rows, np.int64)]
        return _Words(words, reduce(np.logical_and, known) if known else None, is_exact)


def _words(column: pa.Array) -> Longs:
    kind = column.type
    if pa.types.is_floating(kind):
        values = fixed_width(column) + kind.to_pandas_dtype()(_ONE_ZERO)  # there is one zero, and one NaN
        values = np.where(np.isnan(values), np.nan, values).astype(np.float64)
        return values.view(np.int64)
    if is_fixed_width(kind):
        return fixed_width(column).astype(np.int64, copy=False)
    if pa.types.is_decimal128(kind):
        return unscaled_words(column)[0]
    return hash_array(pc.fill_null(column, "" if pa.types.is_string(kind) else b"")).view(np.int64)


@dataclass(frozen=True)
class _Slots:
    """The slots that keys fall into; the last one, behind all others, is of no key.

    Attributes:
        count: their number without the last one.
        low: the integer of the first one, where there is one for each integer of a range.
        bits: the number of bits of a hash that are the slot.
    """

    count: int
    low: int = 0
    bits: int = 0

    @property
    def is_exact(self) -> bool:
        """Return whether different integers are in different slots."""
        return not self.bits

    @staticmethod
    def of(words: Sequence[Longs], rows: int) -> _Slots:
        """Slots for the keys of a table."""
        if len(words) == 1 and not len(words[0]):
            return _Slots(0)
        if len(words) == 1:
            low, high = int(words[0].min()), int(words[0].max())
            if high - low < min(max(_SPARSEST * rows, _SMALLEST_RANGE), _MOST_SLOTS):
                return _Slots(high - low + 1, low)
        bits = max(2 * rows, _FEWEST_SLOTS).bit_length()
        bits = min(bits, max(_MOST_SLOTS, rows).bit_length() - 1)
        return _Slots(1 << bits, bits=bits)

    def of_rows(self, words: Sequence[Longs], rows: int) -> Longs:
        """The slot of each row."""
        if self.bits:
            hashes = hash_int64(words[0])
            for each in words[1:]:
                hashes = hash_int64(hashes.view(np.int64) ^ each)
            return (hashes >> np.uint64(_WORD_BITS - self.bits)).view(np.int64)
        slots = words[0] - self.low
        is_outside = slots.view(np.uint64) >= self.count  # what is below is far above without a sign
        slots[is_outside] = self.count
        return slots
