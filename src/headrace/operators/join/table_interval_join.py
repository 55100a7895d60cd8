"""Interval joins of rows that have their times in columns, or are joined by the time at which they arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, Output
from headrace.operators.changelog.order import millis_of
from headrace.operators.functions import close_all
from headrace.operators.join.find_pairs import LEFT, RIGHT, JoinInterval, Pairs
from headrace.operators.join.interval_join import IntervalJoinOperator
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.results import JoinResults
from headrace.state.runs.merge_input import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TableIntervalJoinOperator(IntervalJoinOperator):
    """Joins rows of two keyed inputs whose times lie within an interval of each other.

    Late rows are joined with the rows that are still kept. Results lag the watermark by the span of the interval, so
    the emitted watermark is held back by it.

    Args:
        definition: the join.
        interval: which times match.
        time_fields: the position of the time column of each input.
    """

    def __init__(self, definition: JoinDefinition, interval: JoinInterval, time_fields: tuple[int, int]) -> None:
        self._delay = max(interval.upper, -interval.lower, 0)
        results = self._results_of(definition)
        super().__init__(interval, definition.input_types, (None, None), results, definition.join_type.outer)
        self._definition, self._time_fields = definition, time_fields
        self.matches_one_by_one = definition.condition is not None
        self.user_code = definition.user_code

    def _results_of(self, definition: JoinDefinition) -> JoinResults:
        return _RowsOfPairs(definition, self._delay)

    def open(self, context: OperatorContext, output: Output) -> None:
        self.matches = _MatchesOfRows(self._definition, context)
        super().open(context, output)

    def close(self) -> None:
        close_all([super().close, *(each.close for each in self.user_code)])

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        field = self._time_fields[input_index]
        name = self._definition.input_types[input_index].field_names[field]
        timed = batch.with_times(millis_of(batch.columns.column(field), name), batch.watermarks)
        self.add(input_index, timed)

    def pass_on(self, watermark: int) -> None:
        self.output.advance_watermark(int(_behind(np.array([watermark]), self._delay)[0]))


class ProcessingTimeJoinOperator(TableIntervalJoinOperator):
    """Joins rows of two keyed inputs that arrive within an interval of each other, by the clock of the job.

    All rows of an epoch arrive at one time, and rows that are kept expire in front of an epoch.

    Args:
        definition: the join.
        interval: which times match.
    """

    def __init__(self, definition: JoinDefinition, interval: JoinInterval) -> None:
        super().__init__(definition, interval, (0, 0))
        self._now = self._event_time = MIN_WATERMARK

    def _results_of(self, definition: JoinDefinition) -> JoinResults:
        return _AtEventTime(_RowsOfPairs(definition, 0), self)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._now, self._event_time = scope.processing_time, scope.watermark
        # Nothing that is stored counts as expired yet: it has to be emitted if it found no match.
        super().begin_epoch(replace(scope, watermark=MIN_WATERMARK))
        self._join(self._now - 1)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        times = np.full(len(batch), self._now)
        self.add(input_index, batch.with_times(times, times - 1))

    def advance_watermark(self, watermark: int) -> None:
        self._join(self._now - 1)
        self._event_time = watermark
        self.output.advance_watermark(watermark)

    def wake_up_time(self) -> int | None:
        if self._unmatched is None or self._unmatched.wait_until() == NO_TIME:
            return None
        return self._unmatched.wait_until() + 1

    @property
    def event_time(self) -> int:
        """The watermark."""
        return self._event_time


@dataclass(frozen=True)
class _AtEventTime:
    """Results of pairs, with the watermark in place of the time by the clock.

    Attributes:
        results: the results.
        operator: the operator, which has the watermark.
    """

    results: JoinResults
    operator: ProcessingTimeJoinOperator
    function = None
    maker = None

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Emits the rows."""
        watermarks = np.full(len(pairs), self.operator.event_time)
        times = np.full(len(pairs), NO_TIMESTAMP)
        self.results.emit(replace(pairs, times=times, watermarks=watermarks), context, output)


def _behind(watermarks: Longs, delay: int) -> Longs:
    is_bound = (watermarks == MAX_WATERMARK) | (watermarks < MIN_WATERMARK + delay)
    found: Longs = np.where(is_bound, watermarks, watermarks - delay)
    return found


class _MatchesOfRows:
    """The condition on pairs of rows within the interval.

    Args:
        definition: the join.
        context: the operator.
    """

    def __init__(self, definition: JoinDefinition, context: OperatorContext) -> None:
        self._definition, self._condition = definition, JoinCondition(definition, context)

    def __call__(self, pairs: Pairs) -> Mask:
        sides = _columns(pairs, self._definition.input_types)
        found = self._definition.has_matches(LEFT, sides[LEFT]) & self._definition.has_matches(RIGHT, sides[RIGHT])
        if not self._condition.is_always_true and len(pairs):
            rows = np.arange(len(pairs))
            found &= self._condition.holds(*sides, rows, rows)
        return found


class _RowsOfPairs:
    """A row of the columns of both inputs for each pair.

    Args:
        definition: the join.
        delay: the delay of results behind the watermark.
    """

    function: Any = None
    maker: Callable[..., Any] | None = None

    def __init__(self, definition: JoinDefinition, delay: int) -> None:
        self._definition, self._delay = definition, delay

    def emit(self, pairs: Pairs, context: OperatorContext, output: Output) -> None:
        """Emits the rows."""
        type_ = self._definition.output_type
        left, right = _columns(pairs, self._definition.input_types)
        made = pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=schema_of(type_))
        output.emit(Batch(type_, pairs.times, _behind(pairs.watermarks, self._delay), columns=made))


def _columns(pairs: Pairs, types: Sequence[TypeInformation]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The columns of both records of each pair; nulls for a missing partner."""
    left, right = (
        pa.RecordBatch.from_arrays(records.flatten(), schema=schema_of(type_))
        for records, type_ in zip((pairs.left, pairs.right), types, strict=True)
    )
    return left, right
