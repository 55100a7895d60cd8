"""Joins and co-groups of windows: pairs of each key as ranges of rows, and a table of elements for each input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, Output
from headrace.operators.join.find_pairs import LEFT, RIGHT, SIDES, Pairs, portions
from headrace.operators.join.results import NO_MATCH, JoinResults, Outer, tagged, tagged_types, untagged
from headrace.operators.waiting import WaitingBatches
from headrace.operators.window.general.ordered_contents import (
    ColumnPieces,
    ElementsOfKeys,
    KeysOfWindow,
    OrderedContents,
    OrderedElements,
    keys_of_window,
)
from headrace.operators.window.general.ordered_operator import DueWindow, OrderedWindowOperator
from headrace.operators.window.general.window_operator import CalledWindows, FunctionWindowOperator, WindowOperator
from headrace.operators.window.stored_windows import LEFT_STORE, RIGHT_STORE, check_has_tables_of
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups
from headrace.state.runs.layout import VALUE, rows_of_ranges
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.intervals import Assignment, RegularWindows

Longs = npt.NDArray[np.int64]


_STORES = (LEFT_STORE, RIGHT_STORE)


class ElementsOfSides(OrderedContents):
    """All records of both inputs, in the order in which those of each came.

    Args:
        context: the operator.
        windows: the windows.
        type_: the type of tagged records.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    def __init__(
        self, context: OperatorContext, windows: RegularWindows, type_: TypeInformation, lateness: int
    ) -> None:
        check_has_tables_of(context, *_STORES)
        self._types, renamed = tagged_types(type_), context.renamed_fields
        self._sides = [
            OrderedElements(context, windows, lateness, of_side, renamed.of_parts({"": name}), store)
            for of_side, name, store in zip(self._types, SIDES, _STORES, strict=True)
        ]

    def begin_epoch(self) -> None:
        for side in self._sides:
            side.begin_epoch()

    def end_epoch(self, watermark: int) -> None:
        for side in self._sides:
            side.end_epoch(watermark)

    def add_all(self, batch: KeyedBatch, pairs: Assignment) -> None:
        is_left, *records = untagged(batch.as_array())
        of_left = is_left[pairs.records]
        for side, values, is_own in zip(self._sides, records, (of_left, ~of_left), strict=True):
            own = pairs.where(is_own)
            if len(own.ends):
                side.add_columns(own.ends, batch.keys.take(own.records), gather(values, own.records))

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        for side in self._sides:
            side.recall(ends, keys)

    def add(self, end: int, element: Any) -> None:
        is_left, left, right = element
        self._sides[LEFT if is_left else RIGHT].add(end, left if is_left else right)

    def elements(self, end: int) -> Sequence[Any]:
        lefts, rights = (side.elements(end) for side in self._sides)
        return [*((True, left, None) for left in lefts), *((False, None, right) for right in rights)]

    def ends_between(self, after: int, upto: int) -> set[int]:
        return set().union(*(side.ends_between(after, upto) for side in self._sides))

    def of_all_keys(self, end: int) -> KeysOfWindow:
        lefts, rights = (side.rows_of(end) for side in self._sides)
        return keys_of_window([*lefts, *rights], RecordsOfSides(*self._pieces(lefts, rights)))

    def _pieces(self, *sides: Sequence[pa.RecordBatch]) -> list[ColumnPieces]:
        """The records of each side."""
        return [
            ColumnPieces(type_, [batch.column(VALUE) for batch in rows] or [pa.array([], type_.storage_type)])
            for type_, rows in zip(self._types, sides, strict=True)
        ]

    def forget(self, watermark: int) -> None:
        for side in self._sides:
            side.forget(watermark)


@dataclass(frozen=True)
class RecordsOfSides:
    """The records of two inputs in rows that are numbered through: first all of the left one.

    Attributes:
        left: those of the left input.
        right: those of the right input.
    """

    left: ColumnPieces
    right: ColumnPieces

    def values(self, rows: Longs) -> list[Any]:
        """The tagged records in these rows."""
        is_left = rows < len(self.left)
        lefts = iter(self.left.values(rows[is_left]))
        rights = iter(self.right.values(rows[~is_left] - len(self.left)))
        return [(True, next(lefts), None) if is_own else (False, None, next(rights)) for is_own in is_left.tolist()]


_MOST_ROWS: Final = 1 << 16
"""The most records that wait; some windows make Python objects of all of them."""


class _TaggingOperator(FunctionWindowOperator):
    """Tags the records of two inputs, which wait until there are many, or event time advances."""

    def open(self, context: OperatorContext, output: Output) -> None:
        self._waiting = WaitingBatches["KeyedBatch"](_MOST_ROWS, are_stored=True)
        super().open(context, output)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.forget()
        super().begin_epoch(scope)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._waiting.add(input_index, batch):
            self._take_in()

    def advance_watermark(self, watermark: int) -> None:
        self._take_in()
        super().advance_watermark(watermark)

    def _take_in(self) -> None:
        """Puts what waits into windows."""
        taken = self._waiting.take()
        if taken.batches:
            super().process_keyed(0, tagged(taken, self._input_type))


class CoGroupOperator(_TaggingOperator, WindowOperator):
    """Applies a function to the records of two keyed inputs that are in the same window. Elements are tagged."""


class OrderedCoGroupOperator(_TaggingOperator, OrderedWindowOperator):
    """The same for windows that fire at their ends alone, with a table for the records of each input."""

    def _ordered_contents(self, context: OperatorContext, windows: RegularWindows) -> OrderedContents:
        return ElementsOfSides(context, windows, self._input_type, self._definition.allowed_lateness)


class ColumnarWindowJoin(OrderedCoGroupOperator):
    """Pairs of the records of two keyed inputs that are in the same window.

    Args:
        definition: the windows.
        input_type: the type of tagged records.
        output_type: the type of what is made of pairs.
        outer: of which inputs records without a partner are shown as well.
        results: what becomes of pairs.
    """

    def __init__(
        self,
        definition: WindowDefinition,
        input_type: TypeInformation,
        output_type: TypeInformation,
        outer: Outer,
        results: JoinResults,
    ) -> None:
        super().__init__(CalledWindows(definition, WindowFunctions(), input_type, output_type, {}))
        self._outer = outer
        self._results = results

    def _failure(self, error: BaseException, element: object) -> BaseException:
        """Calls no function of the user, but emits while records come: the operator behind it reports a failure."""
        return error

    def _come_to_end(self, due: DueWindow, contents: KeysOfWindow, stamp: int) -> None:
        held = contents.held
        assert isinstance(held, ElementsOfKeys), "windows that are shown at their ends keep all elements by these"
        assert isinstance(held.values, RecordsOfSides), "and have a table for each input"
        left, right = held.values.left.whole(), held.values.right.whole()
        time = self._windows.window_of(due.end).max_timestamp()
        for lefts, rights in pairs_of_groups(held.groups, len(left), self._outer):
            times, stamps = np.full(len(lefts), time), np.full(len(lefts), stamp)
            pairs = Pairs(_taken(left, lefts), _taken(right, rights), times, times, times, stamps)
            self._results.emit(pairs, self.context, self.output)


def pairs_of_groups(groups: Groups, left_rows: int, outer: Outer) -> Iterator[tuple[Longs, Longs]]:
    """Each left row with each right row of its group, some at a time; -1 for a partner that is not there.

    They come group by group, left row by left row; right rows are counted from the first one of their own.

    Args:
        groups: the rows by key.
        left_rows: how many rows are of the left input, which come first; all others are of the right one.
        outer: of which inputs rows without a partner are shown as well.
    """
    rows, numbers = groups.order, groups.segments.ids
    of_left = rows < left_rows
    count = len(groups.segments)
    left_counts = np.bincount(numbers[of_left], minlength=count)
    rights, right_counts = rows[~of_left] - left_rows, np.bincount(numbers[~of_left], minlength=count)
    # A row finds all right ones of its group; without any, none. Where there are no left ones, no row finds them.
    finders, of_finders = rows[of_left], numbers[of_left]
    firsts = (np.cumsum(right_counts) - right_counts)[of_finders]
    found = right_counts[of_finders]
    if outer.left:
        rights, firsts = np.append(rights, NO_MATCH), np.where(found == 0, len(rights), firsts)
        found = np.maximum(found, 1)
    if outer.right:
        alone = np.flatnonzero((left_counts == 0)[numbers] & ~of_left)
        places = np.cumsum(~of_left)[alone] - 1
        order = np.argsort(np.concatenate((of_finders, numbers[alone])), kind="stable")
        finders = np.concatenate((finders, np.full(len(alone), NO_MATCH)))[order]
        firsts = np.concatenate((firsts, places))[order]
        found = np.concatenate((found, np.ones(len(alone), np.int64)))[order]
    for start, stop in portions(found):
        lengths = found[start:stop]
        yield np.repeat(finders[start:stop], lengths), rights[rows_of_ranges(firsts[start:stop], lengths)]


def _taken(records: pa.Array, places: Longs) -> pa.Array:
    return records.take(pa.array(places, mask=places == NO_MATCH))
