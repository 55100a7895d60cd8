"""Tables of accumulators that change in place: keys have slots, and rows are merged into the slots of their keys.

What is merged into a large table costs what is merged, and not the table: numbers lie in numpy arrays that are written
into. Columns of other types are made anew by a change, which costs as much as the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import concat, fixed_width, gather, is_fixed_width, of_fixed_width, validity
from headrace.operators.window.columnar.panes.key_order import Splice, places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.operators.window.columnar.accumulators import Accumulators

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Combine = Callable[[list[pa.Array], list[pa.Array]], list[pa.Array]]


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
        self._columns: list[_Column] = [_Numbers(type_) if is_fixed_width(type_) else _Values(type_) for type_ in types]

    def reach(self, slots: int) -> None:
        """Has at least so many slots."""
        more = slots - len(self.is_held)
        if more > 0:
            more = max(more, len(self.is_held) // 2)  # so that slots that come by and by are not moved each time
            self.is_held = np.concatenate((self.is_held, np.zeros(more, np.bool_)))
            for column in self._columns:
                column.extend(more)

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
        """What some slots hold."""
        return [column.take(slots) for column in self._columns]

    def put(self, slots: Longs, columns: Sequence[pa.Array]) -> None:
        """Has slots hold something else."""
        for column, values in zip(self._columns, columns, strict=True):
            column.put(slots, values)
        self.is_held[slots] = True

    def drop(self, slots: Longs) -> None:
        """Has slots hold nothing."""
        self.is_held[slots] = False

    def copy(self) -> SlotTable:
        """A table that holds the same, and changes by itself."""
        other = SlotTable(())
        other.is_held = self.is_held.copy()
        other._columns = [column.copy() for column in self._columns]
        return other


class _Column(Protocol):
    """A column of a table by slot."""

    def extend(self, slots: int) -> None:
        """Has so many slots more."""

    def take(self, slots: Longs) -> pa.Array:
        """The values of slots."""

    def put(self, slots: Longs, values: pa.Array) -> None:
        """Has slots, all different, have other values."""

    def copy(self) -> _Column:
        """A column that has the same values, and changes by itself."""


class _Numbers:
    """Values of a fixed width, and where they are valid: None while all are."""

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

    def copy(self) -> _Column:
        other = _Numbers(self._type)
        other._values = self._values.copy()
        other._valid = None if self._valid is None else self._valid.copy()
        return other


class _Values:
    """Values of any other type."""

    def __init__(self, type_: pa.DataType) -> None:
        self._values = pa.nulls(0, type_)

    def extend(self, slots: int) -> None:
        self._values = concat([self._values, pa.nulls(slots, self._values.type)])

    def take(self, slots: Longs) -> pa.Array:
        return gather(self._values, slots)

    def put(self, slots: Longs, values: pa.Array) -> None:
        if self._values.null_count == len(self._values) and values.null_count == len(values):
            return
        sources = np.arange(len(self._values))
        sources[slots] = len(self._values) + np.arange(len(slots))
        self._values = gather(concat([self._values, values]), sources)

    def copy(self) -> _Column:
        other = _Values(self._values.type)
        other._values = self._values
        return other
