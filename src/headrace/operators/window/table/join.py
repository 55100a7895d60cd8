"""Joins of rows that are in the same window, once it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.typeinfo import RowTypeInfo, Types
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.changelog.event_time import EventTimeOperator
from headrace.operators.changelog.order import millis_of
from headrace.operators.join.find_pairs import LEFT, PAIRS, RIGHT
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.results import INNER, NO_MATCH, JoinType
from headrace.operators.join.window_join import pairs_of_groups
from headrace.operators.waiting import TakenBatches, WaitingBatches
from headrace.operators.window.table.firing_order import TIMERS_OF_RECORDS
from headrace.operators.window.table.local_time import LocalTime
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from headrace.operators.changelog.pending_rows import DueRows
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_TAGS: Final = 2

_MOST_ROWS: Final = 1 << 16
"""The number of rows that wait, at most."""


class TableWindowJoinOperator(EventTimeOperator):
    """Keeps the rows of windows until they end, and then joins those of both inputs with the same key.

    Args:
        definition: the join.
        codec: the codec of the keys.
        end_fields: for each input, the position of the window end column.
        clock: the clock by which windows end.
    """

    timers = TIMERS_OF_RECORDS

    def __init__(
        self, definition: JoinDefinition, codec: KeyCodec, *, end_fields: tuple[int, int], clock: LocalTime
    ) -> None:
        self._tagged = _TaggedRows(definition)
        super().__init__(self._tagged.type, codec, 0)
        self._definition, self._end_fields, self._clock = definition, end_fields, clock
        self.user_code = definition.user_code
        self._waiting = WaitingBatches["KeyedBatch"](_MOST_ROWS, are_stored=True)

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._condition = JoinCondition(self._definition, context)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._waiting.forget()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._waiting.add(input_index, batch):
            self._add_waiting()

    def _take(self, watermark: int) -> None:
        self._add_waiting()
        super()._take(watermark)

    def _add_waiting(self) -> None:
        """Adds the rows that wait: those of two inputs come by turns, a few at a time."""
        taken = self._waiting.take()
        if not taken.batches:
            return
        ends = np.empty(len(taken.sides), np.int64)
        for side, field in enumerate(self._end_fields):
            records = taken.of(side)
            if records is not None:
                name = self._definition.input_types[side].field_names[field]
                ends[taken.sides == side] = millis_of(records.columns.column(field), name)
        self._add(self._tagged.tagged(taken), self._clock.back(ends - 1))

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
        rows = np.maximum(lefts, rights)
        self.output.emit(self._definition.results(lefts, rights, sides, (due.times[rows], due.stamps[rows])))


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
        """The results of a join, in order: a row of each input, or ``NO_MATCH`` for a missing partner."""
        has_match = np.zeros(len(self.of_rows), np.bool_)
        has_match[lefts] = has_match[rights] = True
        if kind.gives_left_rows:
            shown = np.flatnonzero(self.is_left & (has_match == (kind is JoinType.SEMI)))
            return shown, np.full(len(shown), NO_MATCH)
        alone = ~has_match & np.where(self.is_left, kind.outer.left, kind.outer.right)
        rows = np.flatnonzero(alone)
        if not len(rows) and kind is not JoinType.RIGHT:
            return lefts, rights
        found_left = np.concatenate((lefts, np.where(self.is_left[rows], rows, NO_MATCH)))
        found_right = np.concatenate((rights, np.where(self.is_left[rows], NO_MATCH, rows)))
        windows = self.of_rows[np.maximum(found_left, found_right)]
        first, second = (found_right, found_left) if kind is JoinType.RIGHT else (found_left, found_right)
        is_last = first == NO_MATCH
        order = np.lexsort((second, first, is_last, windows))
        return found_left[order], found_right[order]


@dataclass(frozen=True)
class _TaggedRows:
    """A common form of the records of both inputs: the columns of both, with nulls for those of the other input.

    Attributes:
        definition: the join.
    """

    definition: JoinDefinition

    @property
    def type(self) -> RowTypeInfo:
        """The type: whether a record is of the left input, whether its key can match, and the columns of both."""
        pairs = self.definition.pair_type
        types = (Types.BOOLEAN(), Types.BOOLEAN(), *pairs.field_types)
        return RowTypeInfo(types, ("$is_left", "$may_match", *pairs.field_names))

    def tagged(self, taken: TakenBatches[KeyedBatch]) -> KeyedBatch:
        """Records of both inputs in this form, in the order in which they came."""
        schema, sides = schema_of(self.type), taken.sides
        may_match, columns = np.ones(len(sides), np.bool_), list[pa.Array]()
        for side in (LEFT, RIGHT):
            records, is_own = taken.of(side), sides == side
            if records is None:
                columns += [pa.nulls(len(sides), field.type) for field in self._columns(schema, side)]
                continue
            may_match[is_own] = self.definition.has_matches(side, records.columns)
            places = None if is_own.all() else pa.array(np.cumsum(is_own) - 1, mask=~is_own)
            columns += [each if places is None else each.take(places) for each in records.columns.columns]
        made = pa.RecordBatch.from_arrays([pa.array(sides == LEFT), pa.array(may_match), *columns], schema=schema)
        ordinals = [batch.ordinals for batch in taken.batches if batch.ordinals is not None]
        known = np.concatenate(ordinals) if len(ordinals) == len(taken.batches) else None
        plain = Batch(self.type, taken.timestamps, taken.watermarks, columns=made, ordinals=known)
        return KeyedBatch.of(plain, KeyColumn.concat([batch.keys for batch in taken.batches]))

    def sides(self, rows: pa.RecordBatch) -> tuple[Mask, Mask, tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Return which rows are of the left input, which can match, and the columns of each input, over all rows."""
        is_left, may_match = (np.asarray(rows.column(place)) for place in range(_TAGS))
        width = len(self.definition.input_types[LEFT].field_types)
        columns = rows.columns[_TAGS:]
        left, right = (
            pa.RecordBatch.from_arrays(part, schema=schema_of(type_))
            for part, type_ in zip((columns[:width], columns[width:]), self.definition.input_types, strict=True)
        )
        return is_left, may_match, (left, right)

    def _columns(self, schema: pa.Schema, side: int) -> list[pa.Field]:
        width = len(self.definition.input_types[LEFT].field_types)
        return list(schema)[_TAGS : _TAGS + width] if side == LEFT else list(schema)[_TAGS + width :]
