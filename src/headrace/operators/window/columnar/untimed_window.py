"""Windows with built-in aggregates that do not look at timestamps: those of the clock, and the one that has no end.

All records of an epoch belong to the same windows, as the clock stands still within it. So both halves only add up by
key, and the receiver knows the windows.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.keyed import KeyedOperator
from headrace.operators.window.columnar.accumulators import Accumulators, Arrivals, Chunk, accumulators_of
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.operators.window.columnar.window_store import WindowStore
from headrace.operators.window.held_windows import held_in_columns
from headrace.operators.window.stores import CLOCK_STORE, GLOBAL_STORE, accumulators_layout, check_has_only
from headrace.state.runs.ordered import NO_TIME
from headrace.windowing.intervals import OneWindow
from headrace.windowing.windows import GlobalWindow, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, OperatorContext
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.held_windows import StoredWindow
    from headrace.windowing.intervals import RegularWindows
    from headrace.windowing.windows import Window

    Longs = npt.NDArray[np.int64]


class UntimedWindowOperator(KeyedOperator):
    """Built-in aggregates over windows that all records of an epoch are in alike.

    Args:
        layout: the aggregates and the columns.
        windows: the windows.

    Class attributes:
        store_name: the store that accumulators are in.
    """

    store_name: ClassVar[str]

    def __init__(self, layout: ColumnarWindowLayout, windows: RegularWindows) -> None:
        super().__init__()
        self._layout = layout
        self._windows = windows
        self._watermark = MIN_WATERMARK

    def restore_state(self, context: OperatorContext) -> None:
        check_has_only(context, self.store_name)
        self._store = self._open_store(context)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """What windows hold; of an operator that is not open. See :class:`.held_windows.WindowStateReader`."""
        store = self._open_store(context)
        store.begin_epoch()
        for block in store.due(MIN_WATERMARK, MAX_WATERMARK):
            windows, bounds = self._windows_of(block.ends), self._bounds(block.ends)
            yield from held_in_columns(self._layout, block.keys, windows, bounds, block.columns)

    def _open_store(self, context: OperatorContext) -> WindowStore:
        kept_as = accumulators_layout(self._layout, self._windows)
        return WindowStore(self._layout, kept_as, context.state.store(self.store_name), context.learnt)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrivals = Arrivals(scope.epoch)
        self._store.begin_epoch()
        self._ends: list[int] = self._windows.assign(np.array([scope.processing_time])).ends.tolist()

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index != ACCUMULATORS_INPUT:
            super().process(input_index, batch)
        elif len(batch):
            self._add(accumulators_of(batch))

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        keys = batch.keys
        columns, arrivals = self._layout.inputs_of(batch, self.context), self._arrivals.next(len(batch))
        everywhere = np.full(len(batch), self._ends[0] if self._ends else 0)
        chunk = Chunk(everywhere, keys.hashes, keys.values, columns, arrivals)
        if len(self._ends) == 1:
            self._store.add(chunk)
        else:
            self._add(Accumulators.of_chunk(self._layout.aggregators, chunk))

    def end_epoch(self) -> None:
        self._store.end_epoch(MIN_WATERMARK)

    def _add(self, accumulators: Accumulators) -> None:
        for end in self._ends:
            self._store.add_accumulators(accumulators.at(end))

    def _fire(self, upto: int) -> None:
        """Shows the windows whose ends are not above ``upto``; their contents go."""
        for block in self._store.due(MIN_WATERMARK, upto):
            columns = self._layout.finish(block.keys, self._bounds(block.ends), block.columns)
            watermarks = np.full(len(block), self._watermark)
            self.output.emit(Batch(self._layout.output_type, self._timestamps(block.ends), watermarks, columns=columns))
        self._store.forget(upto)

    @abstractmethod
    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        """The windows."""

    @abstractmethod
    def _bounds(self, ends: Longs) -> list[pa.Array]:
        """The columns of results that tell windows apart."""

    @abstractmethod
    def _timestamps(self, ends: Longs) -> Longs:
        """The timestamps of results."""


class ProcessingTimeWindowOperator(UntimedWindowOperator):
    """Windows of processing time, which fire when an epoch begins at their end or later."""

    store_name: ClassVar[str] = CLOCK_STORE

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        # What comes in this very millisecond may belong to a window that ends with it: it fires once more then.
        self._fire(scope.processing_time + 1)

    def end_epoch(self) -> None:
        self._next_end = self._store.next_above(MIN_WATERMARK)
        super().end_epoch()

    def wake_up_time(self) -> int | None:
        return None if self._next_end == NO_TIME else self._next_end - 1

    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        return map(TimeWindow, self._windows.starts_of(ends).tolist(), ends.tolist())

    def _bounds(self, ends: Longs) -> list[pa.Array]:
        return [pa.array(self._windows.starts_of(ends)), pa.array(ends)]

    def _timestamps(self, ends: Longs) -> Longs:
        return ends - 1


class EndOfStreamWindowOperator(UntimedWindowOperator):
    """Global windows that fire when the input ends."""

    store_name: ClassVar[str] = GLOBAL_STORE

    def process(self, input_index: int, batch: Batch) -> None:
        super().process(input_index, batch)
        met = batch.watermarks[batch.watermarks < MAX_WATERMARK]  # the end is told by advance_watermark()
        if len(met):
            self._watermark = max(self._watermark, int(met[-1]))

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK > self._watermark:
            self._fire(OneWindow.END)
        self._watermark = watermark
        super().advance_watermark(watermark)

    def _windows_of(self, ends: Longs) -> Iterable[Window]:
        return repeat(GlobalWindow(), len(ends))

    def _bounds(self, ends: Longs) -> list[pa.Array]:
        return []

    def _timestamps(self, ends: Longs) -> Longs:
        return np.full(len(ends), MAX_WATERMARK)


def untimed_window(layout: ColumnarWindowLayout, windows: RegularWindows) -> UntimedWindowOperator:
    """The operator for built-in aggregates over such windows."""
    kind = EndOfStreamWindowOperator if isinstance(windows, OneWindow) else ProcessingTimeWindowOperator
    return kind(layout, windows)
