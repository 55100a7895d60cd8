"""A function with all kinds of state of its subtask, for tests on both runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.common import Types
from headrace.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
CLAIMED = ListStateDescriptor("claimed", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Ledger(FlatMapFunction, CheckpointedFunction):
    """Keeps numbers in lists of both kinds, and rules that all have alike."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.added = store.get_list_state(NUMBERS)
        self.claimed = store.get_union_list_state(CLAIMED)
        self.rules = store.get_broadcast_state(RULES)
        self.facts = context.is_restored(), context.is_redistributed()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        parallelism = runtime_context.get_number_of_parallel_subtasks()
        if self.facts == (True, True):
            self.claimed.update([number for number in self.claimed.get() if number % parallelism == self.subtask])

    def flat_map(self, value: int) -> Iterator[Any]:
        if value < 0:
            yield self.subtask, self.added.get(), self.claimed.get(), dict(self.rules.items()), self.facts
        else:
            self.added.add(value)
            self.claimed.add(value)
            self.rules["rule"] = 1

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Everything is in state already."""
