"""The contents of windows of fixed ends, ordered by their ends, to which elements are added together.

Elements that are folded are one value a key and window. Where all are kept they are only appended, so those of a batch
stay the columns that they came as: a record is made of Python objects once, for the function that reads it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.general.window_functions import Fold
from headrace.operators.window.lateness import cleaned_end, passed_end
from headrace.operators.window.stored_windows import (
    ELEMENTS_KIND,
    STORE,
    VALUES_KIND,
    StoredWindow,
    WindowStateMigration,
    check_has_no_timers,
    contents_layout,
)
from headrace.state import sorted_table
from headrace.state.copying import copy_value
from headrace.state.evolution import RenamedFields
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.state.keys import KeyColumn
from headrace.state.protocols import KeyedStates
from headrace.state.runs.grouping import Groups, group_keys, group_rows
from headrace.state.runs.layout import HASH, KEY, VALUE
from headrace.state.runs.merge_input import Combine, all_rows, newest
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.sorted_table import TimeSortedTable
from headrace.windowing.intervals import Assignment, RegularWindows

Longs = npt.NDArray[np.int64]


class KeysOfWindow(NamedTuple):
    """The contents of a window, of all keys.

    Attributes:
        keys: the keys, in the order in which they fire.
        held: what it holds of each; to be gone through once.
        shown: makes the input of a function from it.
    """

    keys: KeyColumn
    held: Iterable[Any]
    shown: Callable[[Any], Sequence[Any]]


class OrderedContents(ABC):
    """The contents of the windows of one subtask, which are identified by their ends."""

    @abstractmethod
    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""

    @abstractmethod
    def end_epoch(self, watermark: int) -> None:
        """Writes what is still needed when event time has come to ``watermark``."""

    @abstractmethod
    def add(self, end: int, element: object) -> None:
        """Adds an element to a window, for the current key."""

    @abstractmethod
    def elements(self, end: int) -> Sequence[Any]:
        """The input of a window function for the current key."""

    @abstractmethod
    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        """Adds elements to windows that have not fired yet, in an order that makes no difference.

        Raises:
            UserFunctionError: when a function that folds them fails; it names the element.
        """

    @abstractmethod
    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        """Reads together what windows hold for keys that single elements will be added to."""

    @abstractmethod
    def ends_between(self, after: int, upto: int) -> set[int]:
        """The ends of all windows whose largest timestamp is above ``after`` but not above ``upto``."""

    @abstractmethod
    def of_all_keys(self, end: int) -> KeysOfWindow:
        """The contents of a window, with keys ordered by their hashes, then by themselves."""

    @abstractmethod
    def forget(self, watermark: int) -> None:
        """Drops the windows that go at this watermark, or have gone."""


_COMBINE: Final[dict[str, Combine]] = {VALUES_KIND: newest, ELEMENTS_KIND: all_rows}
"""The merge functions of runs, by kind."""

for _kind, _combine in _COMBINE.items():
    register_ordered_merger(_kind, _combine)


Held = dict[Any, Any]
"""The contents of a window by canonical key: a folded value, or the list of elements."""


class ContentsTable(OrderedContents):
    """The contents of the windows of one subtask.

    Attributes:
        kind: the kind of runs.
        spills: whether what an epoch adds goes to the machine's own disk when it is much.
        trims: whether what is over is left out of files as soon as it is most of a run.

    Args:
        context: the operator.
        windows: the windows.
        lateness: how long windows are kept after their ends, in milliseconds.
        type_: the type of what they hold.
        renamed: which fields of it have other names than in what is stored.
        store: the store that the table is in.
    """

    kind: ClassVar[str]
    spills: ClassVar[bool] = False
    trims: ClassVar[bool] = False

    def __init__(
        self,
        context: OperatorContext,
        windows: RegularWindows,
        lateness: int,
        type_: TypeInformation,
        renamed: RenamedFields,
        store: str = STORE,
    ) -> None:
        self._context = context
        self._keyed = context.state.keyed
        self._type = type_
        self._lateness = lateness
        codec, value, combine = self._keyed.codec, type_.storage_type, _COMBINE[self.kind]
        schema = pa.schema({"window_end": pa.int64(), HASH: pa.uint64(), KEY: codec.arrow_type, VALUE: value})
        kept_as = contents_layout(self.kind, schema, codec, windows, type_, renamed)
        self._schema, self._meta = schema, kept_as.meta
        runs = context.state.store(store)
        WindowStateMigration(context, windows, kept_as, windows, combine, self._regrouped).take_over(runs)
        self._table = TimeSortedTable(runs, kept_as, combine, spills=self.spills, trims=self.trims)

    def begin_epoch(self) -> None:
        check_has_no_timers(self._context)
        self._table.begin_epoch()

    def forget(self, watermark: int) -> None:
        """Drops the windows that go at this watermark, or have gone."""
        self._forget(cleaned_end(watermark, self._lateness))

    def end_epoch(self, watermark: int) -> None:
        self.forget(watermark)
        self._append_new()
        self._table.end_epoch()

    @abstractmethod
    def _append_new(self) -> None:
        """Adds what came in this epoch to the table, as far as it is not there yet."""

    @abstractmethod
    def _regrouped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a run, of what windows of another shape held: rows that are not in its order any more."""

    def _forget(self, last: int) -> None:
        """Drops the windows with ends up to the last one that goes."""
        self._table.forget(last)

    @abstractmethod
    def _add_stored(self, window: Held, key: object, value: object) -> None:
        """Adds a stored row to what older rows have."""

    def _read(self, into: dict[int, Held], ends: Longs, keys: KeyColumn) -> None:
        """Reads what the table has for some windows and keys, unless it has been read already."""
        if self._table.next_above(int(ends.min()) - 1) > int(ends.max()):
            return
        groups = group_rows(ends, keys.hashes, keys.values)
        ends, keys = ends[groups.first_rows], keys.take(groups.first_rows)
        pairs = zip(ends.tolist(), keys.values.to_pylist(), strict=True)
        wanted = {(end, key) for end, key in pairs if key not in into.get(end, ())}
        found: dict[int, Held] = {}
        for batch in self._table.find(ends, keys.hashes):
            self._gather(found, batch, wanted)
        for end, window in found.items():
            into.setdefault(end, {}).update(window)

    def _gather(self, windows: dict[int, Held], batch: pa.RecordBatch, wanted: set[tuple[int, Any]] | None) -> None:
        """Adds the rows of a run, or those that are wanted, to what older runs have."""
        rows = Accumulators.of_batch(batch)
        values = array_to_values(self._type, rows.columns[0])
        for end, key, value in zip(rows.ends.tolist(), rows.keys.to_pylist(), values, strict=True):
            if wanted is None or (end, key) in wanted:
                self._add_stored(windows.setdefault(end, {}), key, value)

    def _rows(self, ends: pa.Array, keys: KeyColumn, values: pa.Array) -> pa.RecordBatch:
        """Rows of the table; not in its order."""
        arrays = [ends, pa.array(keys.hashes), keys.values, values]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def drop_windows(windows: dict[int, Held], last: int) -> None:
    """Drops the windows with ends up to the last one that goes."""
    for end in [end for end in windows if end <= last]:
        del windows[end]


class FoldedValues(ContentsTable):
    """One value that the elements are folded into as they come; what came in this epoch is in dicts.

    Args:
        context: the operator.
        windows: the windows.
        lateness: how long windows are kept after their ends, in milliseconds.
        fold: folds elements into values.
    """

    kind = VALUES_KIND

    def __init__(self, context: OperatorContext, windows: RegularWindows, lateness: int, fold: Fold) -> None:
        self._fold = fold
        super().__init__(context, windows, lateness, fold.type_, context.renamed_fields)
        self._windows: dict[int, Held] = {}

    def begin_epoch(self) -> None:
        super().begin_epoch()
        self._windows = {}

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        if not len(pairs.ends):
            return
        rows, keys = batch.rows, batch.keys
        if not pairs.is_identity:
            records = pairs.records.tolist()
            rows, keys = [rows[i] for i in records], keys.take(pairs.records)
        self.recall(pairs.ends, keys)
        self._add_all(pairs.ends.tolist(), keys.values.to_pylist(), rows)

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        self._read(self._windows, ends, keys)

    def add(self, end: int, element: object) -> None:
        self._add_all((end,), (self._keyed.current.raw,), (element,))

    def elements(self, end: int) -> Sequence[Any]:
        return self._shown(self._windows[end][self._keyed.current.raw])

    def ends_between(self, after: int, upto: int) -> set[int]:
        stored = self._table.times_between(passed_end(after), passed_end(upto)).tolist()
        return {*stored, *(end for end in self._windows if after < end - 1 <= upto)}

    def of_all_keys(self, end: int) -> KeysOfWindow:
        found: dict[int, Held] = {}
        for batch in self._table.between(end - 1, end):
            self._gather(found, batch, None)
        window = {**found.get(end, {}), **self._windows.get(end, {})}
        keys = KeyColumn.of(pa.array(list(window), self._keyed.codec.arrow_type))
        keys = keys.take(group_keys(keys.hashes, keys.values).order)
        return KeysOfWindow(keys, [window[key] for key in keys.values.to_pylist()], self._shown)

    def _shown(self, held: object) -> Sequence[Any]:
        result = self._fold.result(held)
        # What is kept for late elements must not change with what was emitted, or the other way round.
        return (copy_value(result) if self._lateness else result,)

    def _add_all(self, ends: Sequence[int], keys: Sequence[object], elements: Sequence[object]) -> None:
        """Adds each element to the window with its end, for its key."""
        windows, first, add = self._windows, self._fold.first, self._fold.add
        element: Any = NO_RECORD
        try:
            for end, key, element in zip(ends, keys, elements, strict=True):
                window = windows.get(end)
                if window is None:
                    window = windows[end] = {}
                window[key] = add(window[key], element) if key in window else first(element)
        except BaseException as error:
            raise user_error(error, self._context, element) from error

    def _forget(self, last: int) -> None:
        super()._forget(last)
        drop_windows(self._windows, last)

    def _add_stored(self, window: Held, key: object, value: object) -> None:
        window[key] = value

    def _regrouped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        ordered = all_rows(self._meta, [rows])
        ends, hashes, keys, held = ordered.columns
        groups = group_rows(ends.to_numpy(), hashes.to_numpy(), keys)
        values = array_to_values(self._type, held)
        windows = np.split(groups.order, groups.segments.starts[1:])
        try:
            folded = [reduce(self._fold.merge, [values[row] for row in window.tolist()]) for window in windows]
        except BaseException as error:
            raise user_error(error, self._context) from error
        firsts = pa.array(groups.first_rows)
        return self._rows(ends.take(firsts), KeyColumn.of(keys.take(firsts)), values_to_array(self._type, folded))

    def _append_new(self) -> None:
        keys = [key for window in self._windows.values() for key in window]
        if not keys:
            return
        ends = np.repeat(list(self._windows), [len(window) for window in self._windows.values()])
        values = [value for window in self._windows.values() for value in window.values()]
        column = KeyColumn.of(pa.array(keys, self._keyed.codec.arrow_type))
        rows = self._rows(pa.array(ends, pa.int64()), column, values_to_array(self._type, values))
        self._table.append(all_rows(self._meta, [rows]))


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
    """All elements, in the order in which they came."""

    kind = ELEMENTS_KIND
    spills: ClassVar[bool] = True
    trims: ClassVar[bool] = True

    def begin_epoch(self) -> None:
        super().begin_epoch()
        self._new: list[pa.RecordBatch] = []
        self._new_bytes = 0
        self._new_ends: set[int] = set()
        self._late: list[tuple[int, Any, Any]] = []
        self._recalled: dict[int, Held] = {}

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

    def add(self, end: int, element: object) -> None:
        key = self._keyed.current.raw
        self._late.append((end, key, element))
        self._add_stored(self._recalled.setdefault(end, {}), key, element)

    def elements(self, end: int) -> Sequence[Any]:
        held: list[Any] = self._recalled.get(end, {}).get(self._keyed.current.raw, [])
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

    def _add_stored(self, window: Held, key: object, value: object) -> None:
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
    """The contents of a window, of all keys.

    Args:
        rows: the rows, in pieces, of which there is at least one.
        values: their elements.
    """
    hashes = np.concatenate([batch.column(HASH).to_numpy() for batch in rows])
    keys = concat([batch.column(KEY) for batch in rows])
    groups = group_keys(hashes, keys)
    firsts = groups.first_rows
    return KeysOfWindow(KeyColumn(gather(keys, firsts), hashes[firsts]), ElementsOfKeys(values, groups), _all_of)


def _all_of(elements: Sequence[Any]) -> Sequence[Any]:
    return elements


def held_in_order(
    contents: OrderedContents, keyed: KeyedStates, window_of: Callable[[GivenNamespace], object]
) -> Iterator[StoredWindow]:
    """Windows whose contents are ordered by their ends."""
    for end in contents.ends_between(MIN_WATERMARK, MAX_WATERMARK):
        of_keys = contents.of_all_keys(end)
        for entry, held in zip(keyed.bind(of_keys.keys), of_keys.held, strict=True):
            yield StoredWindow(entry.key, window_of(end), list(of_keys.shown(held)))
