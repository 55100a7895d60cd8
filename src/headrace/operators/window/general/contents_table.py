"""``ContentsTable``: what windows of fixed ends hold as a table of rows of (end, key, value).

How values are made of elements is for :mod:`.ordered_elements`, which keeps all of them, and :mod:`.ordered_values`,
which folds them. Both append what came in an epoch, and read what is stored for a key and window, or for all keys of a
window that fires, run after run.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headrace.common.columns import array_to_values
from headrace.operators.window.changed_windows import WindowStateMigration
from headrace.operators.window.columnar.accumulators import Accumulators
from headrace.operators.window.general.ordered_contents import OrderedContents
from headrace.operators.window.lateness import cleaned_end
from headrace.operators.window.stores import STORE, check_has_no_timers, contents_layout
from headrace.state.ordered_table import OrderedTable
from headrace.state.runs.grouping import group_rows
from headrace.state.runs.layout import HASH, KEY, VALUE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.state.keys import KeyColumn
    from headrace.state.renamed_fields import RenamedFields
    from headrace.state.runs.ordered import Combine
    from headrace.windowing.intervals import RegularWindows

    Longs = npt.NDArray[np.int64]

Held = dict[Any, Any]
"""What a window holds by canonical key: a folded value, or the list of elements."""


@dataclass(frozen=True)
class HeldAs:
    """How windows hold what is in a table.

    Attributes:
        kind: the kind of the runs in state.
        combine: makes one batch of several of them.
        type: the type of the values.
        renamed: which fields of these have other names than in what is stored.
        store: the store of the operator that the table is in.
    """

    kind: str
    combine: Combine
    type: TypeInformation
    renamed: RenamedFields
    store: str = STORE


class ContentsTable(OrderedContents):
    """What the windows of one subtask hold.

    Attributes:
        spills: whether what an epoch adds goes to the machine's own disk when it is much.
        trims: whether what is over is left out of files as soon as it is most of a run.

    Args:
        context: the operator.
        held_as: how they hold it.
        windows: the windows.
        lateness: how long windows are kept after their ends, in milliseconds.
    """

    spills: ClassVar[bool] = False
    trims: ClassVar[bool] = False

    def __init__(self, context: OperatorContext, held_as: HeldAs, windows: RegularWindows, lateness: int) -> None:
        self._context = context
        self._keyed = context.state.keyed
        self._type = held_as.type
        self._lateness = lateness
        codec = self._keyed.codec
        value = held_as.type.storage_type
        schema = pa.schema({"window_end": pa.int64(), HASH: pa.uint64(), KEY: codec.arrow_type, VALUE: value})
        kept_as = contents_layout(held_as.kind, schema, codec, windows, held_as.type, held_as.renamed)
        self._schema, self._meta = schema, kept_as.meta
        runs = context.state.store(held_as.store)
        WindowStateMigration(context, windows, kept_as, windows, held_as.combine, self._regrouped).take_over(runs)
        self._table = OrderedTable(runs, kept_as, held_as.combine, spills=self.spills, trims=self.trims)

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
    def _take_up(self, window: Held, key: Any, value: Any) -> None:
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
                self._take_up(windows.setdefault(end, {}), key, value)

    def _rows(self, ends: pa.Array, keys: KeyColumn, values: pa.Array) -> pa.RecordBatch:
        """Rows of the table; not in its order."""
        arrays = [ends, pa.array(keys.hashes), keys.values, values]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def drop_windows(windows: dict[int, Held], last: int) -> None:
    """Drops the windows with ends up to the last one that goes."""
    for end in [end for end in windows if end <= last]:
        del windows[end]
