"""Joins of rows that are in the same window, once it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.operators.base import OperatorContext
from headrace.operators.changelog.event_time import EventTimeOperator
from headrace.operators.changelog.order import millis_of
from headrace.operators.join.find_pairs import PAIRS
from headrace.operators.join.join_type import NOBODY, JoinType
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.results import INNER
from headrace.operators.join.two_inputs import TaggedRows
from headrace.operators.join.window_join import pairs_of_groups
from headrace.operators.window.table.firing_order import TIMERS_OF_ENDED_WINDOWS
from headrace.operators.window.table.local_time import LocalTime
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from headrace.operators.base import KeyedBatch
    from headrace.operators.changelog.pending_rows import DueRows
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TableWindowJoinOperator(EventTimeOperator):
    """Keeps the rows of windows until they end, and then joins those of both inputs with the same key.

    Args:
        definition: the join.
        codec: the codec of the keys.
        end_fields: for each input, the position of the window end column.
        clock: the clock by which windows end.
    """

    timers = TIMERS_OF_ENDED_WINDOWS

    def __init__(
        self, definition: JoinDefinition, codec: KeyCodec, *, end_fields: tuple[int, int], clock: LocalTime
    ) -> None:
        self._tagged = TaggedRows(definition)
        super().__init__(self._tagged.type, codec, 0)
        self._definition, self._end_fields, self._clock = definition, end_fields, clock

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._condition = JoinCondition(self._definition, context)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        field = self._end_fields[input_index]
        name = self._definition.input_types[input_index].field_names[field]
        ends = millis_of(batch.columns.column(field), name)
        self._add(self._tagged.tagged(input_index, batch), self._clock.back(ends - 1))

    def handle(self, due: DueRows) -> None:
        due = due.take(self._in_order(due))
        is_first = _are_first(due)
        is_left, may_match, sides = self._tagged.sides(due.whole())
        windows = _Windows(np.cumsum(is_first) - 1, is_left)
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        parts += [self._condition.filtered(sides, *pairs) for pairs in windows.pairs(may_match)]
        pairs = (np.concatenate(each) for each in zip(*parts, strict=True))
        lefts, rights = windows.results(self._definition.join_type, *pairs)
        for start in range(0, len(lefts), PAIRS):
            self._emit_some(due, sides, lefts[start : start + PAIRS], rights[start : start + PAIRS])

    def _in_order(self, due: DueRows) -> Longs:
        """The order of rows by the firing of their windows, and then by arrival."""
        starts = np.flatnonzero(_are_first(due))
        lengths = np.diff(starts, append=len(due))
        came = np.repeat(np.minimum.reduceat(due.arrivals, starts), lengths)
        otherwise = np.empty(len(due), np.int64)
        otherwise[np.lexsort((came, due.times))] = np.arange(len(due))
        ranks = np.repeat(np.minimum.reduceat(self.ranks(due, otherwise), starts), lengths)
        groups = np.repeat(np.arange(len(starts)), lengths)
        return np.lexsort((due.arrivals, groups, ranks, due.watermarks))

    def _emit_some(
        self, due: DueRows, sides: tuple[pa.RecordBatch, pa.RecordBatch], lefts: Longs, rights: Longs
    ) -> None:
        type_ = self._definition.output_type
        made = pa.RecordBatch.from_arrays(self._definition.emitted(lefts, rights, sides), schema=schema_of(type_))
        rows = np.maximum(lefts, rights)
        self.output.emit(Batch(type_, due.times[rows], due.stamps[rows], columns=made))


def _are_first(due: DueRows) -> Mask:
    """True for the first row of each window and key, given rows in that order."""
    is_first = np.ones(len(due), np.bool_)
    keys = due.keys
    is_first[1:] = (np.diff(due.times) != 0) | (keys.hashes[1:] != keys.hashes[:-1])
    if not pa.types.is_int64(keys.values.type):
        same = np.flatnonzero(~is_first)
        before, own = (keys.values.take(pa.array(rows)) for rows in (same - 1, same))
        is_first[same] = np.asarray(pc.not_equal(before, own))
    return is_first


@dataclass(frozen=True)
class _Windows:
    """Rows of both inputs by window and key.

    Attributes:
        of_rows: the window and key of each row, ascending.
        is_left: which rows are of the left input.
    """

    of_rows: Longs
    is_left: Mask

    def pairs(self, may_match: Mask) -> Iterator[tuple[Longs, Longs]]:
        """The pairs of rows in one window whose keys can match, in chunks."""
        rows = np.flatnonzero(may_match)
        if not len(rows):
            return
        lefts, rights = rows[self.is_left[rows]], rows[~self.is_left[rows]]
        numbers = np.where(
            self.is_left[rows],
            np.cumsum(self.is_left[rows]) - 1,
            len(lefts) + np.cumsum(~self.is_left[rows]) - 1,
        )
        starts = np.flatnonzero(np.diff(self.of_rows[rows], prepend=-1))
        for some, others in pairs_of_groups(Groups(numbers, Segments(starts, len(rows))), len(lefts), INNER):
            yield lefts[some], rights[others]

    def results(self, kind: JoinType, lefts: Longs, rights: Longs) -> tuple[Longs, Longs]:
        """The results of a join, in order: a row of each input, or ``NOBODY`` for a missing partner."""
        has_match = np.zeros(len(self.of_rows), np.bool_)
        has_match[lefts] = has_match[rights] = True
        if kind.gives_left_rows:
            shown = np.flatnonzero(self.is_left & (has_match == (kind is JoinType.SEMI)))
            return shown, np.full(len(shown), NOBODY)
        alone = ~has_match & np.where(self.is_left, kind.outer.left, kind.outer.right)
        rows = np.flatnonzero(alone)
        if not len(rows) and kind is not JoinType.RIGHT:
            return lefts, rights
        found_left = np.concatenate((lefts, np.where(self.is_left[rows], rows, NOBODY)))
        found_right = np.concatenate((rights, np.where(self.is_left[rows], NOBODY, rows)))
        windows = self.of_rows[np.maximum(found_left, found_right)]
        first, second = (found_right, found_left) if kind is JoinType.RIGHT else (found_left, found_right)
        is_last = first == NOBODY
        order = np.lexsort((second, first, is_last, windows))
        return found_left[order], found_right[order]
