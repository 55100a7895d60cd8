"""Drives a keyed operator of a spec on stores of its own: in epochs, with a new operator for each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from headrace.common import Row, RowKind, Types
from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.typeinfo import RowTypeInfo
from headrace.graph.partitioning import KeySelection
from headrace.graph.specs import InputSchema, OperatorParameters, OperatorSpec, TaskParameters
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.user_code import OperatorPlace
from headrace.state.evolution import NOTHING_RENAMED
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs import ALL_HASHES, RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence

SYMBOLS = {"+I": RowKind.INSERT, "-U": RowKind.UPDATE_BEFORE, "+U": RowKind.UPDATE_AFTER, "-D": RowKind.DELETE}
KINDS = {kind: symbol for symbol, kind in SYMBOLS.items()}
LOWEST = -(2**63)

Event = tuple[str, tuple[Any, ...]] | tuple[str, tuple[Any, ...], int] | int
"""What comes: a record, with the number of its input where there are several, or a watermark."""


@dataclass
class Driven:
    """An operator that is fed records and watermarks.

    Attributes:
        spec: its spec.
        type: the type of the records.
        key: the names of the fields that they are keyed by.
        sums_up: whether the sender sums records of windows up where it can.
        inputs: how many inputs it has, all with such records.
    """

    spec: OperatorSpec
    type: RowTypeInfo
    key: tuple[str, ...]
    stores: dict[str, RunStore] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    epochs: int = 0
    watermark: int = LOWEST
    now: int = 0
    is_batch: bool = False
    sums_up: bool = False
    inputs: int = 1

    def __post_init__(self) -> None:
        types = [self.type.field_types[self.type.field_index(name)] for name in self.key]
        self._codec = KeyCodec.for_type(RowTypeInfo(tuple(types), self.key) if types else Types.INT())
        selection = KeySelection(self._codec, None, self.key or None, is_single=not types, names=self.key)
        self._schema = InputSchema(self.type, selection, has_changes=True)
        self.spec = self.spec.resolved([self._schema] * self.inputs)

    def epoch(self, events: Sequence[Event], batch_size: int = 1 << 20) -> None:
        """Feeds an epoch; the batches have so many records at most."""
        operator = self._opened(self.batches.append)
        operator.begin_epoch(EpochScope(self.epochs, self.now, self.watermark))
        waiting: list[tuple[str, tuple[Any, ...]]] = []
        stamps: list[int] = []
        side = 0
        for event in events:
            if isinstance(event, int):
                self.watermark = max(self.watermark, event)
                continue
            symbol, values, *number = event
            if waiting and (len(waiting) == batch_size or number not in ([], [side])):
                self._send(operator, side, self._batch(waiting, stamps))
                waiting, stamps = [], []
            side = number[0] if number else 0
            waiting.append((symbol, values))
            stamps.append(self.watermark)
        if waiting:
            self._send(operator, side, self._batch(waiting, stamps))
        operator.advance_watermark(self.watermark)
        operator.end_epoch()
        self.epochs += 1

    def changes(self) -> list[tuple[str, tuple[Any, ...]]]:
        """All that was emitted."""
        return [(KINDS[row.get_row_kind()], tuple(row)) for batch in self.batches for row in batch.rows]

    def stamps(self) -> list[int]:
        """The watermark under which each change was emitted."""
        return [int(stamp) for batch in self.batches for stamp in batch.watermarks]

    def _batch(self, events: list[tuple[str, tuple[Any, ...]]], stamps: list[int]) -> KeyedBatch:
        rows = [Row.of_kind(SYMBOLS[symbol], *values) for symbol, values in events]
        batch = Batch.of_rows(self.type, rows, np.arange(len(rows)), stamps).without_rows()
        columns = [batch.columns.column(name) for name in self.key]
        return KeyedBatch.of(batch, self._keys(columns, len(rows)))

    def _keys(self, columns: list[pa.Array], count: int) -> KeyColumn:
        if not columns:
            return self._codec.encode([0] * count)
        return self._codec.from_array(pa.StructArray.from_arrays(columns, self.key))

    def _send(self, operator: Any, side: int, batch: KeyedBatch) -> None:
        if not self.sums_up:
            operator.process(side, batch)
            return
        records: list[Batch] = []
        sums: list[Batch] = []
        stores = self.stores
        local = self._opened(records.append, sums.append)
        self.stores = stores  # those of the receiver
        local.begin_epoch(EpochScope(self.epochs, self.now, self.watermark))
        local.process(0, batch)
        local.advance_watermark(self.watermark)
        for index, parts in ((1, sums), (0, records)):
            for part in parts:
                operator.process(index, part.with_watermarks(np.maximum(part.watermarks, batch.watermarks[0])))

    def _opened(self, emit: Any, emit_sums: Any = None) -> Any:
        place = OperatorPlace("operator", "uid", 0, UNKNOWN_CALL_SITE)
        task = cast("TaskParameters", SimpleNamespace(is_batch=self.is_batch))
        spec: Any = self.spec
        inputs = [self._schema] * self.inputs
        parameters = OperatorParameters(task, place, 1, inputs, spec.outputs(inputs).output_type, {}, NOTHING_RENAMED)
        operator = spec.create_operator(parameters) if emit_sums is None else spec.create_local_operator(parameters)
        self.stores = {name: RunStore(name, ALL_HASHES, store.runs) for name, store in self.stores.items()}
        keyed = SimpleNamespace(codec=self._codec)
        state = SimpleNamespace(stored=lambda: list(self.stores), store=self._store, keyed=keyed)
        context = OperatorContext("operator", "uid", 0, 1, 128, UNKNOWN_CALL_SITE, cast("Any", state))
        send: dict[str, Any] = {"emit": emit, "emit_side": lambda _, batch: emit_sums(batch)}
        output = SimpleNamespace(**send, advance_watermark=lambda _: None)
        operator.open(replace(context, watermark=self.watermark), cast("Any", output))
        return operator

    def _store(self, name: str) -> RunStore:
        return self.stores.setdefault(name, RunStore(name, ALL_HASHES))


def run(
    spec: OperatorSpec,
    type_: RowTypeInfo,
    key: tuple[str, ...],
    events: Sequence[Event],
    cuts: Sequence[int] = (),
    batch_size: int = 1 << 20,
    *,
    sums_up: bool = False,
    inputs: int = 1,
) -> list[tuple[str, tuple[Any, ...]]]:
    """What an operator makes of events that are cut into epochs at some places."""
    driven = Driven(spec, type_, key, sums_up=sums_up, inputs=inputs)
    bounds = [0, *sorted({min(cut, len(events)) for cut in cuts}), len(events)]
    for start, stop in pairwise(bounds):
        driven.epoch(events[start:stop], batch_size)
    return driven.changes()
