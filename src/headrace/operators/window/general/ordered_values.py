"""Windows of fixed ends that are folded: one value a key and window.

The values of the keys that a batch touches are read, and those that were touched are written when the epoch ends; the
newest run that has a key and window is right.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.general.contents_table import ContentsTable, HeldAs, drop_windows
from headrace.operators.window.general.ordered_contents import KeysOfWindow, end_of
from headrace.operators.window.lateness import passed_end
from headrace.operators.window.stores import VALUES_KIND
from headrace.state.copying import copy_value
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.runs.ordered import all_rows, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.base import OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.general.contents_table import Held
    from headrace.operators.window.general.folds import Fold
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.windowing.intervals import Assignment, RegularWindows

    Longs = npt.NDArray[np.int64]


class OrderedValues(ContentsTable):
    """One value that the elements are folded into as they come; what came in this epoch is in dicts.

    Args:
        context: the operator.
        windows: the windows.
        fold: folds elements into values.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    def __init__(self, context: OperatorContext, windows: RegularWindows, fold: Fold, lateness: int) -> None:
        self._fold = fold
        held_as = HeldAs(VALUES_KIND, newest, fold.type_, context.renamed_fields)
        super().__init__(context, held_as, windows, lateness)
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

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        self._add_all((end_of(namespace),), (self._keyed.current.raw,), (element,))

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any]:
        return self._shown(self._windows[end_of(namespace)][self._keyed.current.raw])

    def ends_between(self, after: int, upto: int) -> set[int]:
        stored = self._table.times_between(passed_end(after), passed_end(upto)).tolist()
        return {*stored, *(end for end in self._windows if after < end - 1 <= upto)}

    def of_all_keys(self, end: int) -> KeysOfWindow:
        found: dict[int, Held] = {}
        for batch in self._table.between(end - 1, end):
            self._gather(found, batch, None)
        window = {**found.get(end, {}), **self._windows.get(end, {})}
        keys = KeyColumn.of(pa.array(list(window), self._keyed.codec.arrow_type))
        keys = keys.take(group_rows(np.zeros(len(keys), np.int64), keys.hashes, keys.values).order)
        return KeysOfWindow(keys, [window[key] for key in keys.values.to_pylist()], self._shown)

    def _shown(self, held: Any) -> Sequence[Any]:
        result = self._fold.result(held)
        # What is kept for late elements must not change with what was emitted, or the other way round.
        return (copy_value(result) if self._lateness else result,)

    def _add_all(self, ends: Sequence[int], keys: Sequence[Any], elements: Sequence[Any]) -> None:
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

    def _take_up(self, window: Held, key: Any, value: Any) -> None:
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


register_ordered_merger(VALUES_KIND, newest)
