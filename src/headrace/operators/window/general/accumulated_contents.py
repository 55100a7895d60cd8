"""What windows with built-in aggregates hold where they fire one by one: accumulators, in state of key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.aggregates.renamed_inputs import renamed_columns
from headrace.operators.arrays import gather
from headrace.operators.window.general.contents import KeyedContents
from headrace.operators.window.stores import CONTENTS
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.keys.entries import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.common.batch import Batch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.general.aggregate_log import AggregateLog, Columns
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.state.protocols import KeyedStates


class _Held:
    """What one window of a key holds in the course of an epoch.

    Attributes:
        entry: the key.
        namespace: the window.
        is_stored: whether there is something in state.
        is_changed: whether that is not what the window holds now.
        columns: accumulators that an earlier batch has left; None when there are none.
        row: which of them are the window's.
        batch: the batch that the following is about.
        chain: the number of the window in the log.
        version: the last version of it; -1 when there is none.
        parts: all parts in the log that the window consists of.
        pending: those of them that the last version does not have.
        open_part: the part that elements are added to; -1 when there is none.
    """

    __slots__ = (
        "batch",
        "chain",
        "columns",
        "entry",
        "is_changed",
        "is_stored",
        "namespace",
        "open_part",
        "parts",
        "pending",
        "row",
        "version",
    )

    def __init__(self, entry: AnyKeyEntry, namespace: GivenNamespace) -> None:
        self.entry = entry
        self.namespace = namespace
        self.is_stored = self.is_changed = False
        self.columns: Columns | None = None
        self.row = self.batch = -1

    def begin(self, chain: int, part: int | None = None) -> None:
        """Lets the window consist of a part alone, or of nothing."""
        self.chain = chain
        self.version = self.open_part = -1
        self.parts: list[int] = [] if part is None else [part]
        self.pending = self.parts.copy()

    def take(self, part: int) -> None:
        """Lets the window have one more part."""
        self.parts.append(part)
        self.pending.append(part)


class AccumulatedContents(KeyedContents):
    """Accumulators of built-in aggregates. What is shown is the number of a version in the log.

    Args:
        keyed: the state.
        kind: what the windows are.
        layout: the aggregates and the columns.
        log: where what happens is noted.
    """

    def __init__(self, keyed: KeyedStates, kind: str, layout: ColumnarWindowLayout, log: AggregateLog) -> None:
        descriptor = ValueStateDescriptor(CONTENTS, layout.contents_type)
        descriptor.evolves = False  # the accumulators of other aggregates are no others' beginning
        super().__init__(keyed, kind, descriptor, renamed_columns(layout.aggregators, layout.renamed))
        self._type = layout.contents_type
        self._log = log
        self._held: dict[tuple[int, GivenNamespace], _Held] = {}
        self._touched: list[_Held] = []
        self._batch = 0

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        held = self._enter(namespace)
        held.is_changed = True
        if held.open_part < 0:
            held.open_part = self._log.new_part()
            held.take(held.open_part)
        self._log.add(held.open_part, element)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        held = self._enter(namespace)
        return (self._version(held),) if held.parts else None

    def held(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        """The row that the window would show."""
        elements = self.elements(namespace, window)
        if elements is None:
            return None
        shown: list[Batch] = []
        self._log.show(elements[0], cast("AnyKeyEntry", self._keyed.current).raw, window, MIN_WATERMARK)
        self.work_out(shown.append)
        return [row for batch in shown for row in batch.rows]

    def clear(self, namespace: GivenNamespace) -> None:
        self._clear(self._enter(namespace))

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        target = self._enter(namespace)
        target.is_changed, target.open_part = True, -1
        for held in map(self._enter, sources):
            for part in held.parts:
                target.take(part)
            self._clear(held)

    def work_out(self, emit: Callable[[Batch], None]) -> None:
        """Has the log emit its results, and takes up what the windows hold now."""
        touched, self._touched = self._touched, []
        for held in touched:
            if held.pending:
                self._version(held)
        columns = self._log.work_out(emit)
        for held in touched:
            held.columns, held.row = (columns, held.version) if held.parts else (None, -1)
            if not held.parts and not held.is_stored:
                del self._held[held.entry.ordinal, held.namespace]
        self._batch += 1

    def end_epoch(self, watermark: int) -> None:
        try:
            for held, accumulators in self._changed():
                self._keyed.current, self._keyed.namespace = held.entry, held.namespace
                if accumulators is None:
                    self._state.clear()
                else:
                    self._state.update(accumulators)
        finally:
            self._keyed.current = NO_KEY
        self._held.clear()

    def _changed(self) -> Iterator[tuple[_Held, Any]]:
        """The windows whose contents are not what is stored, and their accumulators as rows; None for no contents."""
        by_table: dict[int, list[_Held]] = {}
        for held in self._held.values():
            if held.is_changed:
                by_table.setdefault(id(held.columns), []).append(held)
        for members in by_table.values():
            columns = members[0].columns
            if columns is None:
                yield from ((held, None) for held in members)
                continue
            rows = np.array([held.row for held in members])
            table = [gather(column, rows) for column in columns]
            layout = layout_of(self._type)
            batch = pa.RecordBatch.from_arrays(table, schema=layout.schema)
            yield from zip(members, layout.columns_to_rows(batch), strict=True)

    def _enter(self, namespace: GivenNamespace) -> _Held:
        """What the current key holds in a window."""
        entry: Any = self._keyed.current
        held = self._held.get((entry.ordinal, namespace))
        if held is not None and held.batch == self._batch:
            return held
        if held is None:
            held = self._held[entry.ordinal, namespace] = _Held(entry, namespace)
            held.begin(self._log.new_chain(), self._stored_part(held))
        else:
            part = None if held.columns is None else self._log.part_of(held.columns, held.row)
            held.begin(self._log.new_chain(), part)
        held.batch = self._batch
        self._touched.append(held)
        return held

    def _stored_part(self, held: _Held) -> int | None:
        self._keyed.namespace = held.namespace
        accumulators = self._state.value()
        if accumulators is None:
            return None
        held.is_stored = True
        return self._log.part_of_row(accumulators)

    def _version(self, held: _Held) -> int:
        """What a window holds now."""
        if held.pending:
            held.version = self._log.new_version(held.chain, held.pending)
            held.pending = []
            held.open_part = -1
        return held.version

    def _clear(self, held: _Held) -> None:
        held.is_changed = True
        held.begin(self._log.new_chain())
