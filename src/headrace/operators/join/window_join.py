"""The join of windows that are shown once, at their ends, column by column: pairs of each key as ranges of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.operators.join.co_group import CoGroupOperator
from headrace.operators.join.elements_of_sides import RecordsOfSides
from headrace.operators.join.find_pairs import Pairs, portions
from headrace.operators.window.general.stored_elements import ElementsOfKeys
from headrace.state.runs.list_columns import rows_of_ranges
from headrace.windowing.definition import WindowFunctions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.join.function_results import JoinResults
    from headrace.operators.join.tagged import Outer
    from headrace.operators.window.general.ordered_contents import KeysOfWindow
    from headrace.operators.window.general.window_ends import DueWindow
    from headrace.state.runs.grouping import Groups
    from headrace.windowing.definition import WindowDefinition

    Longs = npt.NDArray[np.int64]

_NOBODY = -1
"""The place of a partner that is not there."""


class ColumnarWindowJoin(CoGroupOperator):
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
        super().__init__(definition, WindowFunctions(), input_type, output_type, {})
        self._outer = outer
        self._results = results

    def _failure(self, error: BaseException, element: Any) -> BaseException:
        """It calls no function of the user, but emits while records come: a failure is told by who is behind it."""
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
    # A row finds all right ones of its group; without any, nobody. Where there are no left ones, nobody finds them.
    finders, of_finders = rows[of_left], numbers[of_left]
    firsts = (np.cumsum(right_counts) - right_counts)[of_finders]
    found = right_counts[of_finders]
    if outer.left:
        rights, firsts = np.append(rights, _NOBODY), np.where(found == 0, len(rights), firsts)
        found = np.maximum(found, 1)
    if outer.right:
        alone = np.flatnonzero((left_counts == 0)[numbers] & ~of_left)
        places = np.cumsum(~of_left)[alone] - 1
        order = np.argsort(np.concatenate((of_finders, numbers[alone])), kind="stable")
        finders = np.concatenate((finders, np.full(len(alone), _NOBODY)))[order]
        firsts = np.concatenate((firsts, places))[order]
        found = np.concatenate((found, np.ones(len(alone), np.int64)))[order]
    for start, stop in portions(found):
        lengths = found[start:stop]
        yield np.repeat(finders[start:stop], lengths), rights[rows_of_ranges(firsts[start:stop], lengths)]


def _taken(records: pa.Array, places: Longs) -> pa.Array:
    return records.take(pa.array(places, mask=places == _NOBODY))
