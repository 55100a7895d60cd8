"""An operator with every kind of state, for tests on both runtimes: what records tell it to do, it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from headrace.common.typeinfo import Types
from headrace.datastream.streams.data_stream import DataStream
from headrace.graph.specs import InputKind, OperatorSpec, OutputSchema
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.user_code import UserCodeGuard
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.state.protocols import KEYED, StateKind, StateKinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.graph.specs import InputSchema, OperatorParameters
    from headrace.operators.base import KeyedBatch

COMMAND = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
"""A key, what to do, and a number to do it with."""

ANSWER = Types.TUPLE([Types.STRING(), Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
"""What was done, the subtask, and what came of it."""

WITHOUT_KEYS: StateKinds = frozenset(StateKind) - KEYED


@dataclass(frozen=True, slots=True)
class LedgerSpec(OperatorSpec):
    """Without keyed state."""

    kind: ClassVar[str] = "Ledger"
    state_kinds: ClassVar[StateKinds] = WITHOUT_KEYS

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(ANSWER)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return LedgerOperator(self.state_kinds)


@dataclass(frozen=True, slots=True)
class ListsSpec(LedgerSpec):
    """The same, but it declares lists only."""

    state_kinds: ClassVar[StateKinds] = frozenset({StateKind.LIST})


@dataclass(frozen=True, slots=True)
class KeyedLedgerSpec(LedgerSpec):
    """With all kinds of state."""

    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = WITHOUT_KEYS | KEYED


class LedgerOperator(Operator):
    """Does what records say, one by one, and answers each."""

    def __init__(self, kinds: StateKinds) -> None:
        super().__init__()
        self._kinds = kinds

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        store = self._store = context.state.operator_state_store
        self._list = store.list_state(ListStateDescriptor("list", Types.LONG()))
        if StateKind.UNION in self._kinds:
            self._union = store.union_list_state(ListStateDescriptor("union", Types.LONG()))
            self._map = store.broadcast_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        if StateKind.KEYED in self._kinds:
            self._keyed = context.state.keyed
            self._count = self._keyed.state(ValueStateDescriptor("count", Types.LONG()))

    def process(self, input_index: int, batch: Batch) -> None:
        keys: list[Any] = [None] * len(batch)
        if StateKind.KEYED in self._kinds:
            keys = self._keyed.bind(cast("KeyedBatch", batch).keys)
        answers = []
        for key, (_, command, number) in zip(keys, batch.rows, strict=True):
            if key is not None:
                self._keyed.current = key
            answers.append((command, self.context.subtask, getattr(self, f"_{command}")(number)))
        self.output.emit(batch.replaced(ANSWER, rows=answers, sources=np.arange(len(batch))))

    def _add(self, number: int) -> int:
        self._list.add(number)
        return len(self._list.get())

    def _next(self, number: int) -> int:
        """One more than the last time."""
        (last,) = self._list.get() or (0,)
        self._list.update([last + 1])
        return last + 1

    def _replace(self, number: int) -> None:
        self._list.update([number])

    def _join(self, number: int) -> None:
        self._union.add(number)

    def _claim(self, number: int) -> None:
        """Of what all had, each subtask keeps what is its own."""
        subtask, parallelism = self.context.subtask, self.context.parallelism
        self._union.update([number for number in self._union.get() if number % parallelism == subtask])

    def _rule(self, number: int) -> None:
        self._map.put(number, number * number)

    def _tally(self, number: int) -> int:
        count: int = (self._count.value() or 0) + 1
        self._count.update(count)
        return count

    def _show(self, number: int) -> tuple[Any, ...]:
        return self._list.get(), self._union.get(), dict(self._map.items()), self._store.is_restored

    def _lists(self, number: int) -> list[int]:
        return self._list.get()

    def _fail(self, number: int) -> None:
        with UserCodeGuard(self.context):
            raise ValueError(f"as it was told, with {number}")


def ledger(stream: DataStream, spec: OperatorSpec | None = None) -> DataStream:
    """The answers of the operator."""
    return DataStream._apply(stream, spec or LedgerSpec(), "Ledger")
