"""Count windows with built-in aggregates, column by column: those that follow one another, and what all have in common.

Records wait until the stretch of input ends, or until there are many. The place of a record among those of its key, and
how many the key has had before, tell its window. Windows that are full are shown in the order in which their last
records came; what is left of a key is added up with what its open window holds. Only keys that have records are read
and written.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK
from headrace.operators.arrays import concat, gather
from headrace.operators.base import Operator
from headrace.operators.window.columnar.count_store import CountedKeys, CountStore
from headrace.operators.window.columnar.firing import FIRED_ROWS
from headrace.operators.window.columnar.waiting import WaitingRecords
from headrace.operators.window.held_windows import held_in_columns
from headrace.operators.window.stores import COUNT_STORE, check_has_only
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments, group_rows
from headrace.windowing.windows import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.columnar.accumulators import Chunk
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.held_windows import HeldWindow
    from headrace.state.protocols import OperatorStates

    Longs = npt.NDArray[np.int64]
    Columns = list[pa.Array]

_WAITING_ROWS = 1 << 18
"""So many records wait at most; the more there are, the less often a key is read and written."""

_ADVICE = (
    "give it another uid, or restore the old declaration; count windows that an earlier version has kept record by "
    "record go on so with a trigger of a class derived from CountTrigger"
)


class WindowStore(Protocol):
    """Where an operator keeps its windows."""

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""

    def end_epoch(self) -> None:
        """Puts what was written into state."""


class CountingOperator(Operator):
    """The root of built-in aggregates over windows of so many records of a key.

    Args:
        layout: the aggregates and the columns.

    Class attributes:
        store_name: the store that windows are kept in.
    """

    store_name: ClassVar[str]
    _store: WindowStore

    def __init__(self, layout: ColumnarWindowLayout) -> None:
        super().__init__()
        self._layout = layout
        self._waiting = WaitingRecords(layout, _WAITING_ROWS)

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self.take_up(context)

    def take_up(self, context: OperatorContext) -> None:
        assert context.state is not None
        check_has_only(context, self.store_name, advice=_ADVICE)
        self._store = self._open_store(context.state)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.begin_epoch(scope.epoch)
        self._store.begin_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        if len(batch) and self._waiting.add(cast("KeyedBatch", batch), self.context):
            self._take_in()

    def advance_watermark(self, watermark: int) -> None:
        self._take_in()
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._waiting.end_epoch()
        self._store.end_epoch()

    def _take_in(self) -> None:
        """Puts the records that wait into their windows."""
        arrived = self._waiting.take()
        if arrived is not None:
            self._add(arrived.chunk, arrived.watermarks)

    @abstractmethod
    def _open_store(self, state: OperatorStates) -> WindowStore:
        """Where the windows are kept."""

    @abstractmethod
    def _add(self, chunk: Chunk, watermarks: Longs) -> None:
        """Adds records to their windows, and shows those that are full.

        Args:
            chunk: the records.
            watermarks: those that they meet.
        """

    def _show(self, keys: pa.Array, numbers: Longs, columns: Columns, stamps: Longs) -> None:
        """Emits full windows: the key, the number and the accumulators of each, and the watermark it is shown under."""
        table = self._layout.finish(keys, [pa.array(numbers)], columns)
        times = np.full(len(numbers), MAX_WATERMARK)
        self.output.emit(Batch(self._layout.output_type, times, stamps, columns=table))


class CountWindowOperator(CountingOperator):
    """Windows of so many records that follow one another.

    Args:
        layout: the aggregates and the columns.
        size: how many records a window holds.
    """

    store_name: ClassVar[str] = COUNT_STORE
    _store: CountStore

    def __init__(self, layout: ColumnarWindowLayout, size: int) -> None:
        super().__init__(layout)
        self._size = size

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[HeldWindow]:
        """What windows hold; of an operator that is not open. See :class:`.held_windows.HoldsWindows`."""
        assert context.state is not None
        counted = self._open_store(context.state).stored()
        opened = counted.take(np.flatnonzero(counted.records % self._size))
        numbers = opened.records // self._size
        windows = map(CountWindow, numbers.tolist())
        return held_in_columns(self._layout, opened.keys.values, windows, [pa.array(numbers)], opened.columns)

    def _open_store(self, state: OperatorStates) -> CountStore:
        return CountStore(self._layout, self._size, state.store)

    def _add(self, chunk: Chunk, watermarks: Longs) -> None:
        counted = _Counted(chunk, self._store, self._size)
        columns = self._contents(chunk, counted)
        self._show_full(counted, columns, watermarks)
        self._store.write(counted.left(columns))

    def _contents(self, chunk: Chunk, counted: _Counted) -> Columns:
        """The accumulators of all windows that have got records."""
        aggregators = self._layout.aggregators
        made = chunk.accumulated(aggregators, Groups(counted.order, counted.windows))
        continued = counted.continued
        if not len(continued):
            return made
        both = aggregators.combine(counted.opened.columns, [gather(column, continued) for column in made])
        rows = np.arange(len(counted.windows))
        rows[continued] = len(rows) + np.arange(len(continued))
        return [gather(concat([a, b]), rows) for a, b in zip(made, both, strict=True)]

    def _show_full(self, counted: _Counted, columns: Columns, watermarks: Longs) -> None:
        full = np.flatnonzero(counted.is_full)
        full = full[np.argsort(counted.last_rows[full])]
        for start in range(0, len(full), FIRED_ROWS):
            shown = full[start : start + FIRED_ROWS]
            keys, numbers = gather(counted.keys.values, counted.key_of_window[shown]), counted.numbers[shown]
            held = [gather(column, shown) for column in columns]
            self._show(keys, numbers, held, watermarks[counted.last_rows[shown]])


class _Counted:
    """Records, counted by key: which windows they are in.

    Args:
        chunk: the records.
        store: what their keys have had before.
        size: how many records a window holds.

    Attributes:
        order: the records by hash, key and arrival.
        keys: the keys that have records, in that order.
        windows: where the windows that get records begin in it.
        key_of_window: which of the keys each of these is of.
        numbers: the number of each among the windows of its key.
        last_rows: the last of the records that each gets.
        is_full: whether that one fills it.
        opened: what windows held before that go on.
        continued: which windows these are.
    """

    def __init__(self, chunk: Chunk, store: CountStore, size: int) -> None:
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        of_keys, self.order = groups.segments, groups.order
        self.keys = KeyColumn(gather(chunk.keys, groups.first_rows), chunk.hashes[groups.first_rows])
        found, known = store.find(self.keys)
        before = np.zeros(len(self.keys), np.int64)
        before[found] = known.records
        self._records = before + of_keys.counts
        places = np.arange(len(chunk)) - np.repeat(of_keys.starts - before, of_keys.counts)
        begins = places % size == 0
        begins[of_keys.starts] = True
        starts = np.flatnonzero(begins)
        self.windows = Segments(starts, len(chunk))
        self.key_of_window = of_keys.ids[starts]
        self.numbers = places[starts] // size
        lasts = np.append(starts[1:], len(chunk)) - 1
        self.last_rows = self.order[lasts]
        self.is_full = (places[lasts] + 1) % size == 0
        self._last_windows = np.searchsorted(starts, np.append(of_keys.starts[1:], len(chunk))) - 1
        is_open = np.flatnonzero(known.records % size)
        self.opened = known.take(is_open)
        self.continued = np.searchsorted(starts, of_keys.starts[found[is_open]])

    def left(self, columns: Columns) -> CountedKeys:
        """What is known of the keys from now on; ``columns`` are the accumulators of the windows."""
        rows = pa.array(self._last_windows, mask=self.is_full[self._last_windows])
        return CountedKeys(self.keys, self._records, [column.take(rows) for column in columns])
