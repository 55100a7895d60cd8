"""Drives one operator through epochs, the way a task does, and collects what it emits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from window_model import MIN, Record

from headrace.common.batch import Batch
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.typeinfo import Types
from headrace.operators.base import EpochScope, KeyedBatch, Operator, OperatorContext
from headrace.operators.window.stored_windows import WindowStateReader
from headrace.state.hashmap_backend import HashMapOperatorStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.operators.window.stored_windows import StoredWindow


@dataclass
class Collected:
    """An output that keeps everything."""

    batches: list[Batch] = field(default_factory=list)
    sides: dict[str, list[Batch]] = field(default_factory=dict)
    watermarks: list[int] = field(default_factory=list)
    order: list[tuple[str, Any]] = field(default_factory=list)

    def emit(self, batch: Batch) -> None:
        assert len(batch)
        self.batches.append(batch)
        self.order.extend(("row", w) for w in batch.watermarks.tolist())

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        assert len(batch)
        self.sides.setdefault(tag_id, []).append(batch)

    def advance_watermark(self, watermark: int) -> None:
        self.watermarks.append(watermark)
        self.order.append(("watermark", watermark))

    @property
    def rows(self) -> list[tuple]:
        """What was emitted: (watermark, timestamp, *fields)."""
        return [
            (w, t, *row)
            for batch in self.batches
            for w, t, row in zip(batch.watermarks.tolist(), batch.timestamps.tolist(), batch.rows, strict=True)
        ]

    def side(self, tag_id: str) -> list[tuple]:
        return [
            (w, t, *row)
            for batch in self.sides.get(tag_id, [])
            for w, t, row in zip(batch.watermarks.tolist(), batch.timestamps.tolist(), batch.rows, strict=True)
        ]

    def check_order(self) -> None:
        """Output watermarks never fall, and nothing is emitted at or below one that was passed on."""
        reached = MIN
        for _, watermark in self.order:
            assert watermark >= reached
            reached = watermark


class Stores:
    """The stores of one operator."""

    def __init__(self) -> None:
        self.stores: dict[str, RunStore] = {}

    def store(self, name: str) -> RunStore:
        if name not in self.stores:
            self.stores[name] = RunStore(name, ALL_HASHES)
        return self.stores[name]

    def reopened(self) -> Stores:
        """The same runs in fresh stores, as another worker would see them."""
        state = Stores()
        state.stores = {name: RunStore(name, ALL_HASHES, store.runs) for name, store in self.stores.items()}
        return state


INPUT = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.DOUBLE()])


@dataclass
class Driver:
    """One operator and its state; ``fresh`` makes a new operator for every epoch.

    Attributes:
        make: makes the operator.
        type: the type of the input.
        codec: how keys are stored.
    """

    make: Callable[[], Operator]
    type: Any = INPUT
    codec: KeyCodec = field(default_factory=lambda: KeyCodec.for_type(Types.LONG()))
    fresh: bool = True
    state: Stores = field(default_factory=Stores)
    operator_state: HashMapOperatorStates | None = None
    out: Collected = field(default_factory=Collected)
    watermark: int = MIN
    epoch: int = 0
    operator: Operator | None = None
    counters: dict[str, int] = field(default_factory=dict)

    def run(self, batches: Sequence[Sequence[Record]], upto: int | None = None) -> None:
        """One epoch; the operator's watermark ends at ``upto``, by default that of the last record."""
        operator = self._begin()
        for records in batches:
            if records:
                operator.process(0, self.batch(records))
                self.watermark = max(self.watermark, records[-1].watermark)
        self.watermark = max(self.watermark, self.watermark if upto is None else upto)
        operator.advance_watermark(self.watermark)
        self._end(operator)

    def held(self) -> list[StoredWindow]:
        """What windows hold between epochs, as somebody sees it who looks from outside."""
        states = HashMapOperatorStates("w", self.state.reopened().store)
        states.bind_key_codec(self.codec)
        states.begin_epoch(MIN, 1000 + self.epoch)
        operator = self.make()
        assert isinstance(operator, WindowStateReader)
        return list(operator.held_windows(context(states), self.watermark))

    def batch(self, records: Sequence[Record]) -> KeyedBatch:
        # Watermarks are never below the operator's own: the task sees to that.
        marks = np.maximum.accumulate([max(self.watermark, r.watermark) for r in records])
        rows = [self.row(r) for r in records]
        batch = Batch.of_rows(self.type, rows, [r.timestamp for r in records], marks)
        return KeyedBatch.of(batch, self.codec.encode([r.key for r in records]))

    def row(self, record: Record) -> Any:
        from headrace.common.types import Row

        return Row(key=record.key, value=record.value)

    def _begin(self) -> Operator:
        if self.operator is None or self.fresh:
            self.state = self.state.reopened()
            self.operator_state = HashMapOperatorStates("w", self.state.store)
            self.operator_state.bind_key_codec(self.codec)
            self.operator = self.make()
            self.operator.open(context(self.operator_state), self.out)
        assert self.operator_state is not None
        self.operator_state.begin_epoch(self.watermark, 1000 + self.epoch)
        self.operator.begin_epoch(EpochScope(self.epoch, 1000 + self.epoch, self.watermark))
        return self.operator

    def _end(self, operator: Operator) -> None:
        emitted = len(self.out.order)
        operator.end_epoch()
        assert self.operator_state is not None
        self.operator_state.end_epoch()
        assert len(self.out.order) == emitted, "nothing may be emitted at the end of an epoch"
        for name, amount in operator.counters.items():
            self.counters[name] = self.counters.get(name, 0) + amount
        operator.counters.clear()
        self.epoch += 1
        self.out.check_order()


def context(state: Any) -> OperatorContext:
    return OperatorContext("window", "w", 0, 1, 128, UNKNOWN_CALL_SITE, optional_state=state)
