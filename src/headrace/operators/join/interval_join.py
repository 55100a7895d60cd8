"""The interval join: pairs of records of two inputs with the same key, whose times lie within an interval.

Semantics are Flink's: a record is late when its time is below the watermark, and then neither matched nor kept; a
record is kept until no record that is on time can match it any more; a pair has the later time of both. An outer join
emits a record without a match when it goes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.functions import FunctionOperator
from headrace.operators.join.find_pairs import (
    LEFT,
    RIGHT,
    SIDES,
    ArrivedSide,
    JoinInterval,
    Pairs,
    arrived_records,
    find_pairs,
    log_layout,
)
from headrace.operators.join.outer_pairs import UnmatchedLog, UnmatchedRecords
from headrace.operators.join.results import JoinResults, Outer
from headrace.operators.waiting import WaitingBatches
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.operators.window.lateness import LateRecords, check_timestamps
from headrace.state.key_sorted_table import KeySortedTable
from headrace.state.runs.sections import Section

Longs = npt.NDArray[np.int64]

_MOST_ROWS: Final = 1 << 18
"""The most records that wait; the more there are, the less often what is kept is searched."""

_BEYOND: Final = "the interval about a record begins or ends at a time"

_STORES = ("join-left", "join-right")
_UNMATCHED_STORES = ("join-left-alone", "join-right-alone")


class IntervalJoinOperator(KeyedOperator, FunctionOperator):
    """Joins two keyed inputs.

    Args:
        interval: which times match.
        input_types: the types of both inputs.
        late_tags: of each input the id of the side output for records that come too late; without one they are dropped
            and counted.
        results: what becomes of pairs.
        outer: of which inputs records without a partner are shown as well.
    """

    matches: Callable[[Pairs], npt.NDArray[np.bool_]] | None = None
    """Tells which pairs within the interval match; None where all do."""

    matches_one_by_one = False
    """True if the condition can distinguish two records that have the same key and time."""

    def __init__(
        self,
        interval: JoinInterval,
        input_types: Sequence[TypeInformation],
        late_tags: Sequence[str | None],
        results: JoinResults,
        outer: Outer,
    ) -> None:
        super().__init__(results.function)
        self.maker = results.maker
        self._interval = interval
        self._input_types = input_types
        self._late = [LateRecords(self, 0, tag) for tag in late_tags]
        self._results = results
        self._sides_shown = [side for side, is_shown in ((LEFT, outer.left), (RIGHT, outer.right)) if is_shown]
        self._waiting = WaitingBatches["KeyedBatch"](_MOST_ROWS, are_stored=True)
        self._watermark = MIN_WATERMARK
        self._has_shown = False

    def restore_state(self, context: OperatorContext) -> None:
        codec, interval, types = context.state.keyed.codec, self._interval, self._input_types
        layouts = [
            log_layout(
                codec,
                types[side],
                interval.retention(side),
                context.renamed_fields.of_parts({"": SIDES[side]}),
                is_outer=side in self._sides_shown,
                is_numbered=self.matches_one_by_one,
            )
            for side in (LEFT, RIGHT)
        ]
        stores = [context.state.store(name) for name in _STORES]
        self._logs = [KeySortedTable(*each) for each in zip(stores, layouts, strict=True)]
        self._schemas = [layout.schema for layout in layouts]
        unmatched = {
            side: UnmatchedLog(context.state.store(_UNMATCHED_STORES[side]), codec, interval.retention(side))
            for side in self._sides_shown
        }
        self._unmatched = UnmatchedRecords(interval, unmatched) if unmatched else None

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._waiting.forget()
        self._has_shown = False
        self._numbers = ArrivalCounter(scope.epoch, are_needed=self.matches_one_by_one)
        for log in self._logs:
            log.begin_epoch(scope.watermark)
        if self._unmatched is not None:
            self._unmatched.begin_epoch()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        check_timestamps(batch, self.context, self._interval.reach, "an interval join", _BEYOND)
        is_late = batch.timestamps < batch.watermarks
        if is_late.any():
            self._late[input_index].send_away(batch, is_late)
            batch = batch.take(np.flatnonzero(~is_late))
        self.add(input_index, batch)

    def add(self, input_index: int, batch: KeyedBatch) -> None:
        """Adds records of one input, late or not."""
        if len(batch) and self._waiting.add(input_index, batch):
            self._join(batch.last_watermark)

    def advance_watermark(self, watermark: int) -> None:
        self._join(max(watermark, self._watermark))
        self.pass_on(self._watermark)

    def pass_on(self, watermark: int) -> None:
        """Emits the watermark, held back by the delay of results."""
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        anew = [
            log.end_epoch(self._watermark, has_shown=self._has_shown and side in self._sides_shown)
            for side, log in enumerate(self._logs)
        ]
        if self._unmatched is not None:
            self._unmatched.end_epoch(anew)

    def _join(self, watermark: int) -> None:
        """Finds the pairs of all that waits; the watermark comes to ``watermark`` then."""
        before, self._watermark = self._watermark, watermark
        taken = self._waiting.take()
        is_any_expired = self._unmatched is not None and self._unmatched.wait_until() <= watermark
        if not taken.batches and not is_any_expired:
            return
        self._has_shown |= is_any_expired
        arrived = arrived_records(self._interval, self._schemas, taken, self._numbers.next(len(taken.sides)))
        sources = [[*log.sections(before), side.section] for log, side in zip(self._logs, arrived, strict=True)]
        for pairs in self._found(sources, arrived, taken.watermarks, before):
            self._results.emit(pairs, self.context, self.output)
        for log, side in zip(self._logs, arrived, strict=True):
            log.append(side.section.batch, watermark)

    def _found(
        self, sources: Sequence[Sequence[Section]], arrived: Sequence[ArrivedSide], watermarks: Longs, before: int
    ) -> Iterator[Pairs]:
        """The pairs of what has arrived, and expired records without one; the watermark has risen meanwhile."""
        if self._unmatched is not None:
            return self._unmatched.joined(sources, arrived, watermarks, before, self._watermark, self.matches)
        return find_pairs(self._interval, sources, arrived, watermarks, is_match=self.matches)
