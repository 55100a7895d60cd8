"""Windows of fixed ends that keep all their elements: as columns, of which records are made when a window fires.

Elements are only appended, and nobody looks at them before. So those of a batch stay the columns that they came as: a
record is made of Python objects once, for the function that sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, overload

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.other_names import names_explained
from headrace.operators.arrays import concat, gather
from headrace.operators.window.general.contents import all_of
from headrace.operators.window.general.ordered_contents import ContentsTable, HeldAs, KeysOfWindow, drop_windows, end_of
from headrace.operators.window.lateness import passed_end
from headrace.operators.window.stores import ELEMENTS_KIND, STORE
from headrace.state import sorted_table
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY, VALUE
from headrace.state.runs.merge_input import all_rows
from headrace.state.runs.merging import register_ordered_merger

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import KeyedBatch, OperatorContext
    from headrace.operators.window.general.ordered_contents import Held
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.renamed_fields import RenamedFields
    from headrace.state.runs.grouping import Groups
    from headrace.windowing.intervals import Assignment, RegularWindows

    Longs = npt.NDArray[np.int64]


BLOCK: Final = 1 << 14
"""Of so many elements records are made together."""

MOST_IN_LIST: Final = 1 << 17
"""A function is given a list of so many elements at most."""

_IS_NO_LIST: Final = "so many elements are no list, but read from state whenever they are gone through: {}"
_MAKE_LIST: Final = _IS_NO_LIST.format("make one by list(elements), where memory allows")


class ElementColumn(Protocol):
    """Elements as they are stored."""

    def values(self, rows: Longs) -> list[Any]:
        """The values in these rows."""


@dataclass(frozen=True)
class ColumnPieces:
    """A column in pieces, one after the other.

    Attributes:
        type: the type of its values.
        pieces: the pieces, of which there is at least one.
    """

    type: TypeInformation
    pieces: list[pa.Array]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def whole(self) -> pa.Array:
        """All of it in one piece."""
        return concat(self.pieces)

    def values(self, rows: Longs) -> list[Any]:
        """The values in these rows."""
        return array_to_values(self.type, self._take(rows))

    def _take(self, rows: Longs) -> pa.Array:
        if len(self.pieces) == 1:
            return gather(self.pieces[0], rows)
        starts = np.cumsum([0, *map(len, self.pieces)])
        piece_of = np.searchsorted(starts, rows, side="right") - 1
        order = np.argsort(piece_of, kind="stable")
        bounds = np.searchsorted(piece_of[order], np.arange(len(starts))).tolist()
        taken = [
            gather(piece, rows[order[first:last]] - start)
            for piece, start, (first, last) in zip(self.pieces, starts[:-1], pairwise(bounds), strict=True)
            if first < last
        ]
        found = concat(taken)
        return found if len(taken) == 1 else gather(found, np.argsort(order))


@dataclass(frozen=True)
class ElementsOfKeys:
    """The elements of each key of a window, made while it is gone through.

    Attributes:
        values: all of them.
        groups: where those of each key are among them.
    """

    values: ElementColumn
    groups: Groups

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for block in self.groups.blocks(BLOCK):
            bounds = pairwise([*block.segments.starts.tolist(), block.segments.total])
            if block.segments.total > MOST_IN_LIST:  # of one key at least there are many
                yield from (self._of_key(block.order[start:stop]) for start, stop in bounds)
            else:
                elements = self.values.values(block.order)
                yield from (elements[start:stop] for start, stop in bounds)

    def _of_key(self, rows: Longs) -> Sequence[Any]:
        return StoredElements(self.values, rows) if len(rows) > MOST_IN_LIST else self.values.values(rows)


@names_explained(
    "the elements of a window",
    {
        "sort": _IS_NO_LIST.format("sorted(elements) makes a sorted list"),
        **dict.fromkeys(("append", "clear", "copy", "extend", "insert", "pop", "remove", "reverse"), _MAKE_LIST),
    },
)
class StoredElements(Sequence[Any]):
    """The elements that a window holds of a key, if these are very many. They may be gone through any number of times.

    Args:
        values: a column that they are in.
        rows: which rows of it they are.
    """

    def __init__(self, values: ElementColumn, rows: Longs) -> None:
        self._values = values
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._in_blocks(self._rows)

    def __reversed__(self) -> Iterator[Any]:
        return self._in_blocks(self._rows[::-1])

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self._in_blocks(self._rows[index]))
        return self._values.values(self._rows[[index]])[0]

    def __repr__(self) -> str:
        return f"<{len(self)} elements of a window>"

    def _in_blocks(self, rows: Longs) -> Iterator[Any]:
        for start in range(0, len(rows), BLOCK):
            yield from self._values.values(rows[start : start + BLOCK])


class OrderedElements(ContentsTable):
    """All elements, in the order in which they came.

    Args:
        context: the operator.
        held_as: how windows hold them, as of :func:`elements_held_as`.
        windows: the windows.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    spills: ClassVar[bool] = True
    trims: ClassVar[bool] = True

    def __init__(self, context: OperatorContext, held_as: HeldAs, windows: RegularWindows, lateness: int) -> None:
        super().__init__(context, held_as, windows, lateness)
        self._begin()

    def _begin(self) -> None:
        self._new: list[pa.RecordBatch] = []
        self._new_bytes = 0
        self._new_ends: set[int] = set()
        self._late: list[tuple[int, Any, Any]] = []
        self._recalled: dict[int, Held] = {}

    def begin_epoch(self) -> None:
        super().begin_epoch()
        self._begin()

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        if not len(pairs.ends):
            return
        keys, values = batch.keys, batch.as_array()
        if not pairs.is_identity:
            keys, values = keys.take(pairs.records), gather(values, pairs.records)
        self.add_columns(pairs.ends, keys, values)

    def add_columns(self, ends: Longs, keys: KeyColumn, values: pa.Array) -> None:
        """Adds elements, of which there is at least one, to the windows with these ends."""
        new = self._rows(pa.array(ends), keys, values)
        self._new.append(new)
        self._new_bytes += new.nbytes
        self._new_ends.update(np.unique(ends).tolist())
        if self._new_bytes >= sorted_table.SPILLED_BYTES:
            self._append_new()

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        self._append_new()
        self._read(self._recalled, ends, keys)

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        end, key = end_of(namespace), self._keyed.current.raw
        self._late.append((end, key, element))
        self._take_up(self._recalled.setdefault(end, {}), key, element)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any]:
        held: list[Any] = self._recalled.get(end_of(namespace), {}).get(self._keyed.current.raw, [])
        return held.copy()  # late elements must not get into what was shown

    def ends_between(self, after: int, upto: int) -> set[int]:
        stored = self._table.times_between(passed_end(after), passed_end(upto)).tolist()
        new = {*self._new_ends, *(end for end, _, _ in self._late)}
        return {*stored, *(end for end in new if after < end - 1 <= upto)}

    def of_all_keys(self, end: int) -> KeysOfWindow:
        rows = self.rows_of(end)
        return keys_of_window(rows, ColumnPieces(self._type, [batch.column(VALUE) for batch in rows]))

    def rows_of(self, end: int) -> Sequence[pa.RecordBatch]:
        """The rows of a window, in pieces."""
        self._append_new()
        return self._table.between(end - 1, end)

    def _forget(self, last: int) -> None:
        if self._new and min(self._new_ends) <= last:
            self._append_new()
        super()._forget(last)
        drop_windows(self._recalled, last)
        self._late = [late for late in self._late if late[0] > last]

    def _take_up(self, window: Held, key: Any, value: Any) -> None:
        window.setdefault(key, []).append(value)

    def _regrouped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return all_rows(self._meta, [rows])

    def _append_new(self) -> None:
        if self._late:
            self._new.append(self._late_rows())
        if self._new:
            self._table.append(all_rows(self._meta, self._new))
        self._new, self._new_bytes, self._new_ends, self._late = [], 0, set(), []

    def _late_rows(self) -> pa.RecordBatch:
        ends, keys, elements = zip(*self._late, strict=True)
        column = KeyColumn.of(pa.array(keys, self._keyed.codec.arrow_type))
        return self._rows(pa.array(ends, pa.int64()), column, values_to_array(self._type, elements))


def keys_of_window(rows: Sequence[pa.RecordBatch], values: ElementColumn) -> KeysOfWindow:
    """What a window holds of all keys.

    Args:
        rows: the rows, in pieces, of which there is at least one.
        values: their elements.
    """
    hashes = np.concatenate([batch.column(HASH).to_numpy() for batch in rows])
    keys = concat([batch.column(KEY) for batch in rows])
    groups = group_rows(np.zeros(len(keys), np.int64), hashes, keys)
    firsts = groups.first_rows
    return KeysOfWindow(KeyColumn(gather(keys, firsts), hashes[firsts]), ElementsOfKeys(values, groups), all_of)


def elements_held_as(type_: TypeInformation, renamed: RenamedFields, store: str = STORE) -> HeldAs:
    """How windows hold elements.

    Args:
        type_: the type of the elements.
        renamed: which of their fields have other names than in what is stored.
        store: the store of the operator that they are in.
    """
    return HeldAs(ELEMENTS_KIND, all_rows, type_, renamed, store)


register_ordered_merger(ELEMENTS_KIND, all_rows)
