"""What windows that fire at intervals before their end have in common, whichever time the intervals are of.

Records wait until event time goes on at the end of a stretch of input, or until there are many. Then their windows are
found at once, among those that are open and those that may be due; of the open windows only these are read and
written.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from headrace.operators.arrays import gather
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.columnar.aligned_window import MOST_PAIRS
from headrace.operators.window.columnar.continuous.early_results import EARLY_RESULTS, Contents
from headrace.operators.window.columnar.firing import FIRED_ROWS, Emission, result_batch
from headrace.operators.window.columnar.keyed_operator import KeyedWindowOperator
from headrace.operators.window.columnar.late_firings import LATE_FIRINGS
from headrace.operators.window.columnar.window_table import CONTINUOUS, WindowRows, WindowTable
from headrace.operators.window.held_windows import held_times
from headrace.operators.window.lateness import check_timestamps, cleanup_times
from headrace.state.runs.grouping import sorted_by
from headrace.windowing.intervals import Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.base import OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.continuous.early_firings import Firings
    from headrace.operators.window.columnar.continuous.early_results import Shown
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.columnar.waiting import ArrivedRecords
    from headrace.operators.window.columnar.window_table import TouchedKeys
    from headrace.operators.window.held_windows import HeldWindow
    from headrace.state.keys import KeyColumn
    from headrace.windowing.definition import WindowDefinition
    from headrace.windowing.intervals import AlignedWindows, GrowingWindows

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_WAITING_ROWS = 1 << 18
"""So many records wait at most; the more there are, the less often a window is read and written."""

_SHOWN: Final = "shown: "

NO_PAIRS: Final = Assignment(np.empty(0, np.int64), np.empty(0, np.int64), False)


class EarlyWindowOperator(KeyedWindowOperator):
    """Built-in aggregates over windows that fire at intervals.

    Args:
        layout: the aggregates and the columns.
        definition: the windows.
        windows: the same as arithmetic.
        interval: how long after a firing the next one is due, in milliseconds.

    Class attributes:
        fires: the time that intervals are of: ``"event"`` or ``"processing"``.
    """

    fires: ClassVar[str]

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        definition: WindowDefinition,
        windows: AlignedWindows | GrowingWindows,
        interval: int,
    ) -> None:
        self._most_rows = max(1, min(_WAITING_ROWS, MOST_PAIRS // windows.per_timestamp))
        super().__init__(layout, self._most_rows, definition.allowed_lateness, definition.late_tag_id)
        self._windows, self._interval = windows, interval
        self._is_event_time = definition.assigner.is_event_time()
        mode = definition.applied_mode
        self._results, self._late_firings = EARLY_RESULTS[mode], LATE_FIRINGS[mode]
        self._kept_for = self._lateness if self._late_firings.keeps_contents else 0  # from a window's end on

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[HeldWindow]:
        """What windows hold; of an operator that is not open. See :class:`.held_windows.HoldsWindows`."""
        stored = self._open_table(context).stored()
        contents = Contents.of_column(stored.columns[: self._layout.width])
        rows = contents.windows
        ends = stored.ends[rows]
        is_kept = np.flatnonzero(self._is_kept(ends, watermark))
        contents, ends = contents.take(is_kept), ends[is_kept]
        keys, starts = stored.keys.take(rows[is_kept]).values, self._windows.starts_of(ends)
        return held_times(self._layout, keys, starts, ends, contents.columns)

    def _advance(self, watermark: int, arrived: ArrivedRecords | None) -> None:
        if arrived is not None:
            for start in range(0, len(arrived), self._most_rows):
                self._add(arrived.slice(start, min(start + self._most_rows, len(arrived))))
        if watermark > self._watermark:
            self._fire_until(watermark)

    def _check(self, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, self._windows.reach)
        lateness = self._lateness
        goes = cleanup_times(self._windows.last_ends(batch.timestamps), lateness)
        rows = np.flatnonzero(goes <= batch.watermarks)
        if len(rows):
            part = batch.take(rows)
            pairs = self._windows.assign(part.timestamps)
            self._late.refuse(part, pairs.where(cleanup_times(pairs.ends, lateness) > part.watermarks[pairs.records]))

    @abstractmethod
    def _add(self, records: ArrivedRecords) -> None:
        """Puts records into their windows."""

    @abstractmethod
    def _fire_until(self, watermark: int) -> None:
        """Brings event time to a watermark, and fires what is due on the way."""

    @abstractmethod
    def _is_kept(self, ends: Longs, watermark: int) -> Mask:
        """Whether windows are still there at a watermark."""

    def _open_table(self, context: OperatorContext) -> WindowTable:
        """The windows in state; where it is remembered, what they have shown last is behind what they hold."""
        shape = {**self._windows.shape, "fires": self.fires, "shown": self._results.remembers_last}
        fields = list(self._layout.accumulator_schema)[2:] if self._results.remembers_last else []
        shown = [field.with_name(_SHOWN + field.name) for field in fields]
        return WindowTable(CONTINUOUS, self._layout, context, shape, shown)

    def _show(self, found: FoundWindows, firings: Firings, shown: Shown, before: Longs) -> Iterator[Emission]:
        """What firings show, in the order in which they happen.

        Args:
            found: the windows.
            firings: the firings.
            shown: their results.
            before: the watermark in force before each place at which there may be firings.
        """
        times, places, windows = (column[shown.firings] for column in (firings.times, firings.places, firings.windows))
        order = np.lexsort((windows, times, places))
        for start in range(0, len(order), FIRED_ROWS):
            rows = order[start : start + FIRED_ROWS]
            keys = found.keys.take(found.of_keys[windows[rows]])
            columns = [column.take(pa.array(rows)) for column in shown.columns]
            results = Accumulators(found.ends[windows[rows]], keys.hashes, keys.values, columns)
            kinds = None if shown.kinds is None else shown.kinds[rows]
            yield Emission(results, before[places[rows]], 2 * places[rows], kinds)

    def _emit(self, emissions: Sequence[Emission]) -> None:
        if any(len(emission.accumulators) for emission in emissions):
            self.output.emit(result_batch(self._layout, self._windows, emissions))

    def _write(
        self,
        found: FoundWindows,
        next_times: Longs,
        due_times: Longs,
        contents: Contents,
        shown: Contents | None,
        stays: Mask,
    ) -> None:
        """Writes all windows of the keys of which one has changed.

        Args:
            found: the windows.
            next_times: when each fires next.
            due_times: when each fires next, or goes.
            contents: what they hold.
            shown: what they have shown last, where that is remembered.
            stays: which of them are still there.
        """
        keys, of_keys = found.keys, found.of_keys
        is_new_time, has_changed = found.compared(next_times, stays)
        had_some = np.zeros(len(keys), np.bool_)
        had_some[of_keys[found.of_open]] = True
        had_some[of_keys[stays]] = False
        written = np.flatnonzero(stays & has_changed[of_keys])
        rows = contents.spread(len(found)), [] if shown is None else shown.spread(len(found))
        of_contents, of_shown = ([gather(column, written) for column in columns] for columns in rows)
        numbers = found.ends[written], next_times[written]
        windows = WindowRows(keys.take(of_keys[written]), numbers, [*of_contents, *of_shown])
        without = keys.take(np.flatnonzero(had_some & has_changed))
        self._table.write(windows, due_times[written], is_new_time[written], without)


@dataclass(frozen=True)
class FoundWindows:
    """The windows of records, and the open ones of the same keys, by key and end.

    Attributes:
        keys: the keys, each once, by hash and key.
        of_keys: which of them each window is of.
        ends: the end of each window.
        opened: the windows that were open.
        width: how many of their columns are what they hold; the others are what they have shown last.
        of_open: which window each of these is.
        of_pairs: for each assignment of records, the window of each pair.
    """

    keys: KeyColumn
    of_keys: Longs
    ends: Longs
    opened: WindowRows
    width: int
    of_open: Longs
    of_pairs: tuple[Longs, ...]

    def __len__(self) -> int:
        return len(self.ends)

    @staticmethod
    def of(table: WindowTable, width: int, touched: TouchedKeys, *assignments: Assignment) -> FoundWindows:
        """The windows of the pairs of some assignments, and the open ones."""
        which, opened = table.find(touched.keys)
        numbers = np.concatenate([which, *(touched.of_records[pairs.records] for pairs in assignments)])
        ends = np.concatenate([opened.ends, *(pairs.ends for pairs in assignments)])
        order = sorted_by(numbers, ends)
        sorted_numbers, sorted_ends = numbers[order], ends[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (sorted_numbers[1:] != sorted_numbers[:-1]) | (sorted_ends[1:] != sorted_ends[:-1])
        windows = np.empty(len(order), np.int64)
        windows[order] = np.cumsum(is_new) - 1
        bounds = np.cumsum([len(which), *(len(pairs.ends) for pairs in assignments)])[:-1]
        of_open, *of_pairs = np.split(windows, bounds)
        found = sorted_numbers[is_new], sorted_ends[is_new]
        return FoundWindows(touched.keys, *found, opened, width, of_open, tuple(of_pairs))

    @property
    def held(self) -> Contents:
        """What windows hold that were open."""
        return self._of_opened(self.opened.columns[: self.width])

    @property
    def shown(self) -> Contents | None:
        """What they have shown last; None where that is not remembered."""
        shown = self.opened.columns[self.width :]
        return self._of_opened(shown) if shown else None

    @property
    def next_times(self) -> Longs:
        """When the windows fire next that were open."""
        return self.opened.numbers[1]

    def compared(self, next_times: Longs, stays: Mask) -> tuple[Mask, Mask]:
        """Which windows fire at another time now, and the keys of which a window has changed.

        Args:
            next_times: when each window fires next.
            stays: which windows are still there.
        """
        is_new_time = np.ones(len(self), np.bool_)
        is_new_time[self.of_open] = self.next_times != next_times[self.of_open]
        changes = is_new_time | ~stays
        for windows in self.of_pairs:
            changes[windows] = True
        has_changed = np.zeros(len(self.keys), np.bool_)
        has_changed[self.of_keys[changes]] = True
        return is_new_time, has_changed

    def _of_opened(self, columns: list[pa.Array]) -> Contents:
        held = Contents.of_column(columns)
        return Contents(self.of_open[held.windows], held.columns, held.numbers)

    def firsts(self, pairs: Assignment, of_pairs: Longs) -> Longs:
        """The record that came first to each window; -1 where none did."""
        firsts = np.full(len(self), -1)
        firsts[of_pairs[::-1]] = pairs.records[::-1]  # of several, the last one that is assigned stays
        return firsts
