"""The contents of windows as Python objects: what came in this epoch in dicts, the rest in an ordered table.

Folded windows hold one value a key and window: the values of the keys that a batch touches are read, and those that
were touched are written when the epoch ends; the newest run that has a key and window is right. Windows that keep all
their elements are only appended to; their elements are read when the window fires, run after run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.operators.window.accumulators import Accumulators
from headrace.operators.window.lateness import cleaned_end, passed_end
from headrace.operators.window.merging import ELEMENTS_KIND, VALUES_KIND, contents_layout
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.ordered import all_rows, newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from headrace.operators.window.folds import Fold
    from headrace.operators.window.row_layout import RowWindowLayout
    from headrace.state.runs import RunStore

    Longs = npt.NDArray[np.int64]

Window = dict[Any, Any]
"""What is held by canonical key: a folded value, or the list of elements."""


class RowContents:
    """What the windows of one subtask hold.

    Args:
        layout: what is kept, and for how long.
        fold: folds elements into values; None keeps all elements.
        runs: the state.
    """

    def __init__(self, layout: RowWindowLayout, fold: Fold | None, runs: RunStore) -> None:
        self._codec = layout.codec
        self._type = layout.contents_type
        self._lateness = layout.lateness
        self._schema = layout.state_schema
        self._fold = fold
        kind, combine = (ELEMENTS_KIND, all_rows) if fold is None else (VALUES_KIND, newest)
        kept_as = contents_layout(
            kind, self._schema, layout.codec, layout.assigner, types=layout.contents_type.to_json()
        )
        self._table = OrderedTable(runs, kept_as, combine)
        self._meta = kept_as.meta
        self._windows: dict[int, Window] = {}
        self._recalled: dict[int, Window] = {}

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()
        self._windows, self._recalled = {}, {}

    def recall(self, ends: Longs, keys: KeyColumn) -> None:
        """Reads what is stored for some windows and keys, before elements are added whose value depends on it."""
        if self._table.next_above(int(ends.min()) - 1) > int(ends.max()):
            return
        groups = group_rows(ends, keys.hashes, keys.values)
        first = groups.first_rows
        ends, keys = ends[first], keys.take(first)
        wanted = set(zip(ends.tolist(), keys.values.to_pylist(), strict=True))
        target = self._recalled if self._fold is None else self._windows
        wanted = {pair for pair in wanted if pair[1] not in target.get(pair[0], ())}
        found: dict[int, Window] = {}
        for batch in self._table.find(ends, keys.hashes):
            self._gather(found, batch, wanted)
        for end, window in found.items():
            target.setdefault(end, {}).update(window)

    def add(self, ends: Iterable[int], keys: Iterable[Any], elements: Iterable[Any]) -> Iterator[Any]:
        """Adds elements; yields each before it is added, so that the caller knows which one failed."""
        windows, fold = self._windows, self._fold
        for end, key, element in zip(ends, keys, elements, strict=True):
            yield element
            window = windows.get(end)
            if window is None:
                window = windows[end] = {}
            if fold is None:
                window.setdefault(key, []).append(element)
            elif key in window:
                window[key] = fold.add(window[key], element)
            else:
                window[key] = fold.first(element)

    def held(self, end: int, key: Any) -> Any:
        """What a window holds for one key, of which what is stored has been recalled."""
        held = self._windows[end][key]
        return held if self._fold is not None else [*self._recalled.get(end, {}).get(key, ()), *held]

    def window(self, end: int) -> tuple[KeyColumn, list[Any]]:
        """What a window holds: its keys, by hash and key, and the folded value or the list of elements of each."""
        window: dict[int, Window] = {}
        for batch in self._table.between(end - 1, end):
            self._gather(window, batch, None)
        merged = window.get(end, {})
        for key, held in self._windows.get(end, {}).items():
            merged[key] = [*merged.get(key, ()), *held] if self._fold is None else held
        keys = KeyColumn.of(pa.array(list(merged), self._codec.arrow_type))
        keys = keys.take(group_rows(np.zeros(len(keys), np.int64), keys.hashes, keys.values).order)
        return keys, [merged[key] for key in keys.values.to_pylist()]

    def ends_between(self, after: int, upto: int) -> set[int]:
        """The ends of all windows whose largest timestamp is above ``after`` but not above ``upto``."""
        stored = self._table.times_between(passed_end(after), passed_end(upto)).tolist()
        return {*stored, *(end for end in self._windows if after < end - 1 <= upto)}

    def forget(self, watermark: int) -> None:
        """Drops contents whose time has passed."""
        last = cleaned_end(watermark, self._lateness)
        self._table.forget(last)
        for windows in (self._windows, self._recalled):
            for end in [end for end in windows if end <= last]:
                del windows[end]

    def end_epoch(self, watermark: int) -> None:
        """Writes what is still needed."""
        self.forget(watermark)
        if self._windows:
            self._table.append(self._new_rows())
        self._table.end_epoch()

    def _gather(self, windows: dict[int, Window], batch: pa.RecordBatch, wanted: set[tuple[int, Any]] | None) -> None:
        """Adds rows of a run to what older runs have."""
        rows = Accumulators.of_batch(batch)
        values = array_to_values(self._type, rows.columns[0])
        for end, key, value in zip(rows.ends.tolist(), rows.keys.to_pylist(), values, strict=True):
            if wanted is not None and (end, key) not in wanted:
                continue
            window = windows.setdefault(end, {})
            if self._fold is None:
                window.setdefault(key, []).append(value)
            else:
                window[key] = value

    def _new_rows(self) -> pa.RecordBatch:
        ends: list[int] = []
        keys: list[Any] = []
        values: list[Any] = []
        for end, window in self._windows.items():
            for key, held in window.items():
                elements = held if self._fold is None else (held,)
                values.extend(elements)
                keys.extend([key] * len(elements))
                ends.extend([end] * len(elements))
        column = KeyColumn.of(pa.array(keys, self._codec.arrow_type))
        arrays = [pa.array(ends, pa.int64()), pa.array(column.hashes), column.values]
        batch = pa.RecordBatch.from_arrays([*arrays, values_to_array(self._type, values)], schema=self._schema)
        return all_rows(self._meta, [batch])
