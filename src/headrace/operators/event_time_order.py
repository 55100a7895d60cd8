"""Two inputs in event-time order: records wait for the watermark, and are then handed over sorted by their timestamps.

A record meets the event time right before its timestamp, so timers fire between records where their times are, however
far the watermark has come by then. So nothing of what a function sees depends on where epochs end or on which task
reads what, but for late records: they are handed over at once, behind all that the watermark which they have met has
let go.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import EpochScope, Operator, OperatorContext, Output
from headrace.operators.functions import INPUTS
from headrace.operators.process import KeyedProcessOperator, ProcessOperator
from headrace.operators.waiting import (
    OrderedRecords,
    WaitingForEventTime,
    WaitingInBroadcastState,
    WaitingInTable,
    hashes_of,
)
from headrace.operators.window.lateness import check_timestamps

Longs = npt.NDArray[np.int64]


ORDER: Final = "in_event_time_order()"
"""The call that declares it in a program, as errors name it."""

_MOST_WAITING: Final = 1 << 18
"""The most records of an epoch that wait: then those that are due are handed over."""

_HANDED_OVER: Final = 1 << 15
"""The records that are made Python objects at a time."""


class EventTimeOrderOperator(Operator):
    """Hands the records of two inputs to an operator in the order of event time.

    Of records with one timestamp those of the input that goes first come first, and of one input and one key they keep
    their order.

    Args:
        operator: the operator, which follows the order; a :class:`KeyedProcessOperator` where the inputs that are not
            broadcast are keyed.
        input_types: the types of both inputs.
        broadcast: the input that all subtasks get as a whole, if there is one: it goes first. Else the first one does.
    """

    def __init__(
        self,
        operator: KeyedProcessOperator | ProcessOperator,
        input_types: Sequence[TypeInformation],
        broadcast: int | None = None,
    ) -> None:
        super().__init__()
        self._operator = operator
        self._input_types = input_types
        self._broadcast = broadcast
        self._turns = [0, 1] if broadcast is None else [broadcast, 1 - broadcast]
        self.counters = operator.counters
        self._watermark = MIN_WATERMARK

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._restore_waiting(context)
        self._operator.open(context, output)

    def restore_state(self, context: OperatorContext) -> None:
        self._restore_waiting(context)
        self._operator.restore_state(context)

    def _restore_waiting(self, context: OperatorContext) -> None:
        self._keyed = context.state.keyed if isinstance(self._operator, KeyedProcessOperator) else None
        self._waiting = {number: self._waiting_of(number, context) for number in self._turns}

    def _waiting_of(self, number: int, context: OperatorContext) -> WaitingForEventTime:
        """The buffer of the records of an input."""
        state, type_ = context.state, self._input_types[number]
        renamed = context.renamed_fields.of_parts({"": INPUTS[number]})
        if number == self._broadcast:
            return WaitingInBroadcastState(state.operator_state_store, type_, renamed)
        return WaitingInTable(state, number, type_, renamed, is_keyed=self._keyed is not None)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._arrived = 0
        for waiting in self._waiting.values():
            waiting.begin_epoch()
        self._operator.begin_epoch(scope)

    def process(self, input_index: int, batch: Batch) -> None:
        self._waiting[input_index].add(batch)
        self._arrived += len(batch)
        if self._arrived >= _MOST_WAITING:
            self._hand_over(batch.last_watermark)

    def advance_watermark(self, watermark: int) -> None:
        self._hand_over(watermark)
        self._operator.advance_watermark(watermark)

    def wake_up_time(self) -> int | None:
        return self._operator.wake_up_time()

    def finish(self) -> None:
        self._operator.finish()

    def end_epoch(self) -> None:
        for waiting in self._waiting.values():
            waiting.end_epoch()
        self._operator.end_epoch()

    def close(self) -> None:
        self._operator.close()

    def _hand_over(self, watermark: int) -> None:
        """Hands over what the watermark lets go, and what came late."""
        watermark, self._arrived = max(watermark, self._watermark), 0
        due = [
            (turn, part)
            for turn, number in enumerate(self._turns)
            for part in self._waiting[number].take(watermark, self._check)
        ]
        before, self._watermark = self._watermark, watermark
        if not due:
            return
        order, watermarks = _order([part for _, part in due], [turn for turn, _ in due], before)
        for start in range(0, len(order), _HANDED_OVER):
            stop = start + _HANDED_OVER
            records = self._gather(due, order[start:stop], watermarks[start:stop])
            self._operator.process_in_order(records)

    def _check(self, batch: Batch) -> None:
        check_timestamps(batch, self.context, 1, ORDER, "a record is followed or preceded by a time")

    def _gather(self, due: Sequence[tuple[int, Batch]], order: Longs, watermarks: Longs) -> OrderedRecords:
        """Some of the records that are due, by their places among all of them."""
        made = OrderedRecords.of_nothing(watermarks.tolist())
        first = 0
        for turn, part in due:
            places = np.flatnonzero((order >= first) & (order < first + len(part)))
            made.put(places.tolist(), self._turns[turn], part, order[places] - first, self._keyed)
            first += len(part)
        return made


def _order(due: Sequence[Batch], turns: Sequence[int], reached: int) -> tuple[Longs, Longs]:
    """The order in which records are handed over, and the event time that each of them meets, in that order.

    Args:
        due: the records, in the order of their turns, and of one turn in that in which they came.
        turns: which of the inputs is whose turn first.
        reached: the event time before.
    """
    times = np.concatenate([part.timestamps for part in due])
    met = np.concatenate([part.watermarks for part in due])
    first = np.concatenate([np.full(len(part), turn) for part, turn in zip(due, turns, strict=True)])
    hashes = np.concatenate([hashes_of(part) for part in due])
    is_late = times <= met
    # A late record comes behind all that the watermark which it has met has let go.
    order = np.lexsort((hashes, first + len(turns) * is_late, np.maximum(times, met)))
    watermarks = np.maximum(np.where(is_late, met, times - 1), reached)
    return order, watermarks[order]
