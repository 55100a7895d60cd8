"""Panes: stretches of event time that overlapping windows share.

All timestamps of a pane belong to the same windows. So records are added up by pane and key, once each, and a window is
the merge of its panes: a window of an hour that slides by a minute would otherwise make sixty rows of every record.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width, gather, is_fixed_width, of_fixed_width, replaced, validity
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.state.runs.grouping import group_keys
from headrace.windowing.intervals import AlignedWindows, Assignment, RegularWindows

if TYPE_CHECKING:
    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Hashes = npt.NDArray[np.uint64]
    Combine = Callable[[list[pa.Array], list[pa.Array]], list[pa.Array]]


class Panes:
    """The panes of windows that overlap.

    Args:
        windows: the windows.
        pane: their panes.

    Attributes:
        length: how long a pane is, in milliseconds.
    """

    def __init__(self, windows: RegularWindows, pane: AlignedWindows) -> None:
        self.length = pane.size
        self._windows = windows
        self._pane = pane

    @property
    def as_windows(self) -> AlignedWindows:
        """The panes as windows that do not overlap."""
        return self._pane

    def assign(self, timestamps: Longs) -> Assignment:
        """Each timestamp with the end of its pane."""
        return self._pane.assign(timestamps)

    def windows_of(self, ends: Longs) -> Assignment:
        """The windows of panes, which are given by their ends."""
        return self._windows.assign(ends - 1)

    def are_on_time(self, timestamps: Longs, watermarks: Longs) -> Mask:
        """Return whether none of a record's windows has ended: whether its earliest one has not."""
        return self._windows.first_ends(timestamps) - 1 > watermarks

    def end_above(self, time: int) -> int:
        """The end of the first window that ends above a time; it is the earliest window of that timestamp."""
        return self._windows.first_ends(time)

    def between(self, starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
        """The panes within each of some stretches of time, as positions of the stretches and ends of the panes."""
        counts = (ends - starts) // self.length
        stretches = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(stretches)) - np.repeat(np.cumsum(counts) - counts, counts)
        return stretches, starts[stretches] + (numbers + 1) * self.length

    def spread(self, panes: Accumulators, rows: int) -> Iterator[Accumulators]:
        """Rows of panes as rows of windows, in no particular order.

        Args:
            panes: the rows.
            rows: about how many are made at a time.
        """
        step = max(1, rows // self._windows.per_timestamp)
        for start in range(0, len(panes), step):
            piece = panes.slice(start, min(start + step, len(panes)))
            yield piece.spread(self.windows_of(piece.ends))


_Number = TypeVar("_Number", bound=np.generic)


def places_of(rows: Accumulators, hashes: Hashes, keys: pa.Array) -> tuple[Longs, Mask]:
    """Return where the keys of some rows are among others; both lie by hash and key, one row a key.

    Args:
        rows: the rows that are looked for.
        hashes: the hashes of the keys that they are looked for among.
        keys: these keys.

    Returns:
        The place of each: its own, or that of the first one behind it; and whether it is its own.
    """
    places = np.searchsorted(hashes, rows.hashes)
    if not len(hashes):
        return places, np.zeros(len(rows), np.bool_)
    is_known = hashes[np.minimum(places, len(hashes) - 1)] == rows.hashes
    known = np.flatnonzero(is_known)
    own = rows.keys if len(known) == len(rows) else gather(rows.keys, known)
    if gather(keys, places[known]).equals(own):
        return places, is_known
    return _places_of_colliding(rows, hashes, keys)


def _places_of_colliding(rows: Accumulators, hashes: Hashes, keys: pa.Array) -> tuple[Longs, Mask]:
    """The same where different keys have one hash, by sorting all of them."""
    total = len(hashes)
    all_hashes, all_keys = np.concatenate((hashes, rows.hashes)), concat([keys, rows.keys])
    groups = group_keys(all_hashes, all_keys)
    is_there = groups.first_rows < total
    of_rows = groups.numbers
    places: Longs = np.cumsum(is_there) - is_there
    return places[of_rows[total:]], is_there[of_rows[total:]]


class Splice:
    """Rows of which some are left out, and between which others come.

    Args:
        total: how many rows there are.
        gone: those that are left out, ascending.
        places: for each row that comes, ascending, the one that it comes before.
    """

    def __init__(self, total: int, gone: Longs, places: Longs) -> None:
        self._total = total
        self._at = places - np.searchsorted(gone, places) + np.arange(len(places))
        # Each row follows the one before it, but where rows come between (one less) or are left out (one more).
        steps = np.ones(total - len(gone) + len(places) + 1, np.int64)
        steps[0] = 0
        steps[self._at] -= 1
        np.add.at(steps, gone - np.arange(len(gone)) + np.searchsorted(places, gone, side="right"), 1)
        self._order = np.cumsum(steps[:-1])
        self._order[self._at] = 0  # any row

    def numbers(self, values: npt.NDArray[_Number], added: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        """A column of numbers, and that of the rows that come."""
        if not self._total:
            return added
        found = values.take(self._order)
        found[self._at] = added
        return found

    def column(self, column: pa.Array, added: pa.Array) -> pa.Array:
        """The same of any type."""
        if is_fixed_width(column.type) and not column.null_count and not added.null_count:
            return of_fixed_width(self.numbers(fixed_width(column), fixed_width(added)), None, column.type)
        order = self._order.copy()
        order[self._at] = self._total + np.arange(len(self._at))
        return gather(concat([column, added]), order)


class KeySlots:
    """The slots of keys: they are numbered as they come, and listed by hash and key.

    Attributes:
        hashes: the hashes of the keys, in order.
        keys: the keys, by hash and key.
        slots: the slot of each.
    """

    def __init__(self, keys: pa.DataType) -> None:
        self.hashes = np.empty(0, np.uint64)
        self.keys = pa.nulls(0, keys)
        self.slots = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.slots)

    def of(self, rows: Accumulators) -> Longs:
        """The slots of the keys of some rows, which are different and lie by hash and key; new ones get a slot."""
        places, is_known = places_of(rows, self.hashes, self.keys)
        known = np.flatnonzero(is_known)
        if len(known) == len(rows):
            return self.slots[places]
        new = np.flatnonzero(~is_known)
        slots = np.empty(len(rows), np.int64)
        slots[known] = self.slots[places[known]]
        slots[new] = len(self) + np.arange(len(new))
        splice = Splice(len(self), np.empty(0, np.int64), places[new])
        self.hashes = splice.numbers(self.hashes, rows.hashes[new])
        self.keys = splice.column(self.keys, gather(rows.keys, new))
        self.slots = splice.numbers(self.slots, slots[new])
        return slots


class SlotTable:
    """Accumulators by slot.

    Args:
        types: the types of their columns.

    Attributes:
        is_held: whether a slot holds anything.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.is_held = np.zeros(0, np.bool_)
        self._columns: list[_Numbers | pa.Array] = [
            _Numbers(type_) if is_fixed_width(type_) else pa.nulls(0, type_) for type_ in types
        ]

    def reach(self, slots: int) -> None:
        """Has at least so many slots."""
        more = slots - len(self.is_held)
        if more > 0:
            more = max(more, len(self.is_held) // 2)  # so that slots that come by and by are not moved each time
            self.is_held = np.concatenate((self.is_held, np.zeros(more, np.bool_)))
            for number, column in enumerate(self._columns):
                if isinstance(column, _Numbers):
                    column.extend(more)
                else:
                    self._columns[number] = concat([column, pa.nulls(more, column.type)])

    def merge(self, slots: Longs, columns: Sequence[pa.Array], combine: Combine) -> tuple[Mask, list[pa.Array]]:
        """Merges rows into the table, each into a slot of its own.

        Args:
            slots: the slots.
            columns: the rows.
            combine: the accumulators of what the table holds and of what comes, row by row.

        Returns:
            Which of the slots held something, and what those held.
        """
        was_held = self.is_held[slots]
        held = slots[was_held]
        before = self.take(held)
        if len(held) == len(slots):
            self.put(slots, combine(before, list(columns)))
        else:
            self.put(slots, columns)
            if len(held):
                met = np.flatnonzero(was_held)
                self.put(held, combine(before, [gather(column, met) for column in columns]))
        return was_held, before

    def take(self, slots: Longs) -> list[pa.Array]:
        """The contents of some slots."""
        return [
            column.take(slots) if isinstance(column, _Numbers) else gather(column, slots) for column in self._columns
        ]

    def put(self, slots: Longs, columns: Sequence[pa.Array]) -> None:
        """Has slots hold something else."""
        for number, (column, values) in enumerate(zip(self._columns, columns, strict=True)):
            if isinstance(column, _Numbers):
                column.put(slots, values)
            else:
                self._columns[number] = replaced(column, slots, values)
        self.is_held[slots] = True

    def drop(self, slots: Longs) -> None:
        """Has slots hold nothing."""
        self.is_held[slots] = False

    def copy(self) -> SlotTable:
        """A table that holds the same, and changes by itself."""
        other = SlotTable(())
        other.is_held = self.is_held.copy()
        other._columns = [column.copy() if isinstance(column, _Numbers) else column for column in self._columns]
        return other


class _Numbers:
    """A column of values of a fixed width, and where they are valid: None while all are. It is changed in place."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._values: npt.NDArray[Any] = fixed_width(pa.nulls(0, type_)).copy()
        self._valid: Mask | None = None

    def extend(self, slots: int) -> None:
        self._values = np.concatenate((self._values, np.zeros(slots, self._values.dtype)))
        if self._valid is not None:
            self._valid = np.concatenate((self._valid, np.ones(slots, np.bool_)))

    def take(self, slots: Longs) -> pa.Array:
        return of_fixed_width(self._values[slots], None if self._valid is None else self._valid[slots], self._type)

    def put(self, slots: Longs, values: pa.Array) -> None:
        valid = validity(values)
        if valid is not None and self._valid is None:
            self._valid = np.ones(len(self._values), np.bool_)
        if self._valid is not None:
            self._valid[slots] = True if valid is None else valid
        self._values[slots] = fixed_width(values)

    def copy(self) -> _Numbers:
        other = _Numbers(self._type)
        other._values = self._values.copy()
        other._valid = None if self._valid is None else self._valid.copy()
        return other


_NONE = np.empty(0, np.int64)


class PaneTotals:
    """The merge of consecutive panes, of which the oldest leave and newer ones come.

    Args:
        aggregators: what the panes hold; the number of records comes first.
        nothing: no rows of a pane.
        panes: those of the first window, oldest first, with their ends: each one row a key, by hash and key, and
            reversible.
        start: the start of that window.
    """

    def __init__(
        self,
        aggregators: AggregatorList,
        nothing: Accumulators,
        panes: Sequence[tuple[int, Accumulators]],
        start: int,
    ) -> None:
        self._aggregators = aggregators
        self._nothing = nothing
        self._hashes, self._keys, self._columns = nothing.hashes, nothing.keys, nothing.columns
        self._start = start
        self._pieces: list[tuple[int, int, Accumulators]] = []
        """A heap of panes, and of late rows of panes; numbers distinguish those with equal ends."""
        self._number = 0
        self.move_to(start, panes)

    def move_to(self, start: int, panes: Sequence[tuple[int, Accumulators]]) -> bool:
        """Takes away the panes that do not end above a time, and adds newer ones.

        Returns:
            Whether that was possible: whether those that come can leave again. Otherwise nothing is as it was.
        """
        if not all(self._aggregators.are_reversible(rows.columns) for _, rows in panes):
            return False
        self._start = start
        for end, rows in panes:
            self._keep(end, rows)
        leaving = []
        while self._pieces and self._pieces[0][0] <= start:
            leaving.append(heapq.heappop(self._pieces)[-1])
        self._change(leaving, [rows for _, rows in panes])
        return True

    def add_late(self, rows: Accumulators) -> bool:
        """Adds rows of panes that are part of the merge, or have left already.

        Returns:
            Whether that was possible; the same.
        """
        rows = Accumulators.regrouped(self._aggregators, [rows.where(rows.ends > self._start)])
        if not self._aggregators.are_reversible(rows.columns):
            return False
        ends, offsets = rows.windows
        for i, end in enumerate(ends.tolist()):
            self._keep(end, rows.slice(int(offsets[i]), int(offsets[i + 1])))
        self._change([], [rows])
        return True

    def merged(self, end: int) -> Accumulators:
        """One row for every key of the panes, by hash and key, as those of a window."""
        return Accumulators(np.full(len(self._hashes), end, np.int64), self._hashes, self._keys, self._columns)

    def _keep(self, end: int, rows: Accumulators) -> None:
        self._number += 1
        heapq.heappush(self._pieces, (end, self._number, rows))

    def _change(self, leaving: Sequence[Accumulators], coming: Sequence[Accumulators]) -> None:
        out, into = self._by_key(leaving), self._by_key(coming)
        own, _ = places_of(out, self._hashes, self._keys)
        columns = self._merged_at(self._columns, own, self._aggregators.negate(out.columns))
        places, is_known = places_of(into, self._hashes, self._keys)
        if is_known.all():
            columns, new, added = self._merged_at(columns, places, into.columns), self._nothing, _NONE
        else:
            known, new, added = into.where(is_known), into.where(~is_known), places[~is_known]
            columns = self._merged_at(columns, places[is_known], known.columns)
        gone = own[fixed_width(columns[0])[own] == 0]
        if len(gone) or len(added):
            splice = Splice(len(self._hashes), gone, added)
            self._hashes = splice.numbers(self._hashes, new.hashes)
            self._keys = splice.column(self._keys, new.keys)
            columns = [splice.column(own, others) for own, others in zip(columns, new.columns, strict=True)]
        self._columns = columns

    def _by_key(self, pieces: Sequence[Accumulators]) -> Accumulators:
        """One row a key, of the rows of panes."""
        if len(pieces) < 2 and all(len(piece.windows[0]) < 2 for piece in pieces):
            return pieces[0] if pieces else self._nothing
        return Accumulators.regrouped(self._aggregators, [piece.at(0) for piece in pieces])

    def _merged_at(self, columns: list[pa.Array], places: Longs, others: list[pa.Array]) -> list[pa.Array]:
        """Columns with others merged into the rows at some places."""
        if not len(places):
            return columns
        merged = self._aggregators.combine([gather(column, places) for column in columns], others)
        return [replaced(column, places, values) for column, values in zip(columns, merged, strict=True)]
