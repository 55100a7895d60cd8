"""``BoundedJoinOperator``: a join of two bounded inputs, which emits its result when both have ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, gather
from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.changelog.rows_of_keys import check_stores
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.key_index import KeyIndex
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.results import NO_MATCH, JoinType
from headrace.operators.window.columnar.accumulators import ArrivalCounter
from headrace.state.key_sorted_table import KeySortedTable, key_sorted, register_key_sorted_merger
from headrace.state.runs import ALL_HASHES
from headrace.state.runs.layout import HASH, KEY, fields_of_rows
from headrace.state.runs.merge_input import concat
from headrace.state.runs.merging import equal_ranges
from headrace.state.sorted_table import TableLayout

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_KIND: Final = "bounded-join"
_STORES: Final = ("bounded-join-left", "bounded-join-right")
_WORDS: Final = {"keys": "key type", "rows": "type of rows"}
_FIELDS: Final = 4
_HELD_BYTES: Final = 256 << 20
"""Rows of an input are sorted, and go to the disk, when they take so much."""
_PIECE_ROWS: Final = 1 << 20
"""The approximate number of rows that are joined at a time."""

register_key_sorted_merger(_KIND)


class BoundedJoinOperator(KeyedOperator):
    """Joins two keyed append-only inputs, and emits the result when both have ended.

    Args:
        definition: the join.
        codec: the codec of the keys.
    """

    def __init__(self, definition: JoinDefinition, codec: KeyCodec) -> None:
        super().__init__()
        self._definition, self._codec = definition, codec
        self.user_code = definition.user_code

    def restore_state(self, context: OperatorContext) -> None:
        check_stores(context, _STORES)
        self._condition = JoinCondition(self._definition, context)
        self._tables: list[KeySortedTable] = []
        self._schemas: list[pa.Schema] = []
        for name, type_ in zip(_STORES, self._definition.input_types, strict=True):
            fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, self._codec.arrow_type)]
            fields += [pa.field("arrival", pa.int64()), pa.field("may_match", pa.bool_())]
            fields += fields_of_rows(schema_of(type_))
            about = {"keys": self._codec.to_json(), "rows": [str(each.type) for each in schema_of(type_)]}
            self._schemas.append(pa.schema(fields))
            layout = TableLayout("the rows of a join", _KIND, self._schemas[-1], 3, about, _WORDS)
            self._tables.append(KeySortedTable(context.state.store(name), layout))

    def begin_epoch(self, scope: EpochScope) -> None:
        self._arrivals, self._watermark = ArrivalCounter(scope.epoch), scope.watermark
        self._is_done = scope.watermark == MAX_WATERMARK
        self._arrived: tuple[_ArrivedRows, _ArrivedRows] = (_ArrivedRows(), _ArrivedRows())
        for table in self._tables:
            table.begin_epoch()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        keys, arrivals = batch.keys, self._arrivals.next(len(batch))
        may_match = self._definition.has_matches(input_index, batch.columns)
        arrays = [pa.array(keys.hashes), keys.values, pa.array(arrivals), pa.array(may_match), *batch.columns.columns]
        arrived = self._arrived[input_index]
        arrived.add(pa.RecordBatch.from_arrays(arrays, schema=self._schemas[input_index]))
        if arrived.size >= _HELD_BYTES:
            self._sort(input_index)

    def _sort(self, input_index: int) -> None:
        """Put the rows that have arrived in order, of which much goes to the machine's own disk."""
        rows = self._arrived[input_index].take()
        if rows is not None:
            columns = (rows.column(HASH).to_numpy(), rows.column(KEY), rows.column("arrival").to_numpy())
            order, _ = key_sorted(*columns)
            self._tables[input_index].append(rows.take(pa.array(order)))

    def advance_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK and not self._is_done:
            self._is_done = True
            for left, right in self._pieces():
                self._join(left, right)
            for table in self._tables:
                table.begin_epoch()  # nothing has to be stored any more
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        for input_index, table in enumerate(self._tables):
            self._sort(input_index)
            table.end_epoch()

    def _pieces(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The rows of both inputs: all of them where they are in memory, else in chunks of keys."""
        if not any(table.sections() for table in self._tables):
            whole = [arrived.take() for arrived in self._arrived]
            left, right = (
                pa.RecordBatch.from_pylist([], schema) if rows is None else rows
                for rows, schema in zip(whole, self._schemas, strict=True)
            )
            yield left, right
            return
        for input_index in range(len(self._tables)):
            self._sort(input_index)
        sections = [table.sections() for table in self._tables]
        rows = sum(section.rows for each in sections for section in each)
        for hashes in equal_ranges(ALL_HASHES, 1 + rows // _PIECE_ROWS):
            left, right = (
                concat([pa.RecordBatch.from_pylist([], schema), *(section.between(hashes) for section in own)])
                for schema, own in zip(self._schemas, sections, strict=True)
            )
            yield left, right

    def _join(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        rows = _RowsOfInputs(left, right)
        kind, matched = (
            self._definition.join_type,
            (np.zeros(left.num_rows, np.bool_), np.zeros(right.num_rows, np.bool_)),
        )
        for pairs in rows.pairs():
            lefts, rights = self._condition.filtered((rows.left, rows.right), *pairs)
            matched[LEFT][lefts], matched[RIGHT][rights] = True, True
            if not kind.gives_left_rows:
                self._emit(rows, lefts, rights)
        nobody = np.full(max(len(each) for each in matched), NO_MATCH)
        if kind.gives_left_rows or kind.outer.left:
            lefts = np.flatnonzero(matched[LEFT] == (kind is JoinType.SEMI))
            self._emit(rows, lefts, nobody[: len(lefts)])
        if kind.outer.right:
            rights = np.flatnonzero(~matched[RIGHT])
            self._emit(rows, nobody[: len(rights)], rights)

    def _emit(self, rows: _RowsOfInputs, lefts: Longs, rights: Longs) -> None:
        if len(lefts):
            times = np.full(len(lefts), NO_TIMESTAMP), np.full(len(lefts), self._watermark)
            self.output.emit(self._definition.results(lefts, rights, (rows.left, rows.right), times))


@dataclass(slots=True)
class _ArrivedRows:
    """Rows of an input that have arrived, and are in memory.

    Attributes:
        batches: the rows.
        size: the bytes that they take.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.batches.append(batch)
        self.size += batch.nbytes

    def take(self) -> pa.RecordBatch | None:
        """All rows, which are not held any more; None if there are none."""
        batches, self.batches, self.size = self.batches, [], 0
        return concat(batches) if batches else None


@dataclass(frozen=True)
class _RowsOfInputs:
    """Rows of both inputs in the form in which they are stored.

    Attributes:
        of_left: those of the left input.
        of_right: those of the right one.
    """

    of_left: pa.RecordBatch
    of_right: pa.RecordBatch

    @property
    def left(self) -> pa.RecordBatch:
        """The records of the left input."""
        return self.of_left.select(range(_FIELDS, self.of_left.num_columns))

    @property
    def right(self) -> pa.RecordBatch:
        """The records of the right input."""
        return self.of_right.select(range(_FIELDS, self.of_right.num_columns))

    def pairs(self) -> Iterator[tuple[Longs, Longs]]:
        """The pairs of rows with equal keys, in chunks."""
        may_match = [fixed_width(each.column(3)) != 0 for each in (self.of_left, self.of_right)]
        lefts, rights = (np.flatnonzero(each) for each in may_match)
        keys = [
            each.select([0, 1]) if mask.all() else each.select([0, 1]).filter(pa.array(mask))
            for each, mask in zip((self.of_left, self.of_right), may_match, strict=True)
        ]
        if len(lefts) < len(rights):
            for some, others in equal_keys(keys[RIGHT], keys[LEFT]):
                yield lefts[others], rights[some]
            return
        for some, others in equal_keys(keys[LEFT], keys[RIGHT]):
            yield lefts[some], rights[others]


def equal_keys(probed: pa.RecordBatch, built: pa.RecordBatch) -> Iterator[tuple[Longs, Longs]]:
    """The pairs of rows with equal keys, in chunks, in the order of the former and then of the latter.

    Args:
        probed: hashes and keys; each is looked up.
        built: those that are looked up in, which should be the fewer ones.
    """
    is_exact = pa.types.is_integer(probed.column(1).type) and not probed.column(1).null_count
    place = 1 if is_exact and not built.column(1).null_count else 0
    index = KeyIndex([built.column(place)], built.num_rows)
    for some, others in index.pairs([probed.column(place)], probed.num_rows):
        if place == 1:
            yield some, others
        else:  # different keys may have one hash
            is_equal = np.asarray(pc.equal(gather(probed.column(1), some), gather(built.column(1), others)))
            yield (some, others) if is_equal.all() else (some[is_equal], others[is_equal])
