"""Where windows are kept that fire before their end: by key, with the time at which each fires next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.operators.arrays import fixed_width, gather
from headrace.operators.window.columnar.keyed_windows import KeyedWindows
from headrace.operators.window.stores import ADVICE, EARLY_STORE, FIRING_TIMES_STORE
from headrace.state.key_table import merged_by_key
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.merging import register_merger, register_ordered_merger
from headrace.state.runs.ordered import LIVE, newest
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.state.runs import RunStore
    from headrace.windowing.intervals import RegularWindows

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Columns = list[pa.Array]

_WINDOWS_KIND: Final = "early-windows"
_TIMES_KIND: Final = "firing-times"
_NEXT: Final = "next_firing"
_SHOWN: Final = "shown: "
_WORDS: Final = {
    "keys": "key type",
    "size": "size in milliseconds",
    "slide": "slide in milliseconds (that of tumbling windows is their size)",
    "offset": "offset in milliseconds",
    "fires": "time that early results follow",
    "shown": "accumulation mode",
    "parts": "set of aggregates",
}


@dataclass(frozen=True)
class OpenWindows:
    """Windows and what they hold, by hash, key and end.

    Attributes:
        keys: the key of each.
        ends: the end of each.
        next_times: when each fires next.
        contents: the accumulators of what each holds; null where it holds nothing.
        shown: the same of what each has shown last, where that is remembered; else no columns.
    """

    keys: KeyColumn
    ends: Longs
    next_times: Longs
    contents: Columns
    shown: Columns

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, rows: Longs) -> OpenWindows:
        """The windows at ``rows``, in that order."""
        contents, shown = ([gather(column, rows) for column in columns] for columns in (self.contents, self.shown))
        return OpenWindows(self.keys.take(rows), self.ends[rows], self.next_times[rows], contents, shown)


class OpenWindowStore:
    """The windows of one subtask that fire before their end.

    Args:
        layout: the columns.
        windows: the windows.
        store: gives the runs of a store by its name.
        fires: which time firings follow: ``"event"`` or ``"processing"``.
        remembers_shown: whether it is kept what windows have shown last.

    Raises:
        StateMigrationError: when windows of another kind are stored.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        windows: RegularWindows,
        store: Callable[[str], RunStore],
        *,
        fires: str,
        remembers_shown: bool,
    ) -> None:
        end, key, *accumulators = layout.accumulator_schema
        self._width = len(accumulators)
        shown = [field.with_name(_SHOWN + field.name) for field in accumulators] if remembers_shown else []
        place = [pa.field(HASH, pa.uint64()), key.with_name(KEY)]
        kept = [*place, end, pa.field(_NEXT, pa.int64()), pa.field(LIVE, pa.bool_()), *accumulators, *shown]
        keys = {"keys": layout.codec.to_json(), **windows.shape, "fires": fires}
        about = keys | {"parts": layout.aggregators.to_json(), "shown": remembers_shown}
        of_windows = TableLayout(
            "windows", _WINDOWS_KIND, pa.schema(kept), 3, about, _WORDS, advice=ADVICE, named_now=layout.named_now
        )
        times = pa.schema([pa.field("time", pa.int64()), *place])
        of_times = TableLayout("firing times", _TIMES_KIND, times, 3, keys, _WORDS, advice=ADVICE)
        self._windows = KeyedWindows(store(EARLY_STORE), of_windows, store(FIRING_TIMES_STORE), of_times)

    @property
    def first(self) -> int:
        """The first time at which a window may fire or go; ``NO_TIME`` when there is none."""
        return self._windows.first

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._windows.begin_epoch()

    def first_due(self, upto: int, rows: int) -> int:
        """Up to which time about ``rows`` windows are due, of those that are due at ``upto`` or before."""
        return self._windows.first_due(upto, rows)

    def take_due(self, upto: int) -> KeyColumn | None:
        """The keys that may have windows that are due at ``upto`` or before; None when none has."""
        return self._windows.take_due(upto)

    def stored(self) -> OpenWindows:
        """All windows that were stored when the epoch began."""
        return self._of_batch(self._windows.stored())

    def find(self, keys: KeyColumn) -> tuple[Longs, OpenWindows]:
        """The windows of different keys, which are in order, and which of the keys each of them is of."""
        found, batch = self._windows.find(keys)
        return found, self._of_batch(batch)

    def write(self, windows: OpenWindows, due_times: Longs, is_new_time: Mask, keys_without: KeyColumn) -> None:
        """Writes all windows of some keys.

        Args:
            windows: them, by hash, key and end.
            due_times: when each fires next, or goes.
            is_new_time: for which of them this was not written before.
            keys_without: keys that have no windows any more, but had some.
        """
        columns = [pa.array(windows.ends), pa.array(windows.next_times), *windows.contents, *windows.shown]
        self._windows.write(windows.keys, columns, keys_without, due_times, is_new_time)

    def end_epoch(self) -> None:
        """Puts what was written into state."""
        self._windows.end_epoch()

    def _of_batch(self, batch: pa.RecordBatch) -> OpenWindows:
        hashes, keys, ends, times, _, *columns = batch.columns
        found, width = KeyColumn(keys, fixed_width(hashes)), self._width
        return OpenWindows(found, fixed_width(ends), fixed_width(times), columns[:width], columns[width:])


register_merger(_WINDOWS_KIND, merged_by_key)
register_ordered_merger(_TIMES_KIND, newest)
