"""Broadcast hash joins: every task has the rows of the build side whole, and probes them batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.batch import Batch
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.join.bounded_rows import BoundedRows, ReadContext
from headrace.operators.join.find_pairs import LEFT, RIGHT
from headrace.operators.join.key_index import KeyIndex
from headrace.operators.join.regular.definition import JoinCondition, JoinDefinition
from headrace.operators.join.results import NO_MATCH, JoinType
from headrace.operators.stateless import ExpressionOperator

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BroadcastHashJoin:
    """A join with rows that a task has whole.

    Attributes:
        definition: the join.
        build: the rows that are looked up in.
        keys: the columns of the key of both inputs.
        builds_left: whether the rows that are looked up in are those of the left input.
        columns: the columns of the results, among those of both inputs; of the left input alone for a semi join.
    """

    definition: JoinDefinition
    build: BoundedRows
    keys: tuple[tuple[int, ...], tuple[int, ...]]
    builds_left: bool
    columns: tuple[int, ...]

    def table(self, context: ReadContext) -> BuildTable:
        """The table that rows are looked up in, which is computed now."""
        return BuildTable(self, context)


@dataclass(frozen=True)
class JoinedRows(BoundedRows):
    """The rows of a join.

    Attributes:
        input: the rows that are looked up.
        join: the join, with the rows that are looked up in.
    """

    input: BoundedRows
    join: BroadcastHashJoin

    @property
    def inputs(self) -> tuple[BoundedRows, ...]:
        return self.input, self.join.build

    @property
    def parts(self) -> int:
        return self.input.parts

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        table = context.once(self, partial(self.join.table, context))
        for rows in self.input.part(number, context):
            for _, made in table.probe(rows):
                yield made


class BuildTable:
    """The build side as a table that rows probe.

    Args:
        join: the join.
        context: what its rows are computed with.
    """

    def __init__(self, join: BroadcastHashJoin, context: ReadContext) -> None:
        self._join, definition = join, join.definition
        self._kind, self._side = definition.join_type, RIGHT if join.builds_left else LEFT
        self._condition = JoinCondition(definition, context.operator)
        self._rows = join.build.whole(context)
        own = join.keys[LEFT if join.builds_left else RIGHT]
        self._index = KeyIndex([self._rows.column(place) for place in own], self._rows.num_rows)
        self._schema = schema_of(definition.output_type)

    def probe(self, rows: pa.RecordBatch) -> Iterator[tuple[Longs, pa.RecordBatch]]:
        """The results of some rows: which row each is of, and the columns."""
        if self._kind.gives_left_rows:
            yield from self._chosen(rows)
            return
        is_outer = self._kind in (JoinType.LEFT, JoinType.RIGHT)
        matched = np.zeros(rows.num_rows if is_outer else 0, np.bool_)
        for given, own in self._pairs(rows):
            if is_outer:
                matched[given] = True
            yield from self._joined(rows, given, own)
        if is_outer:
            alone = np.flatnonzero(~matched)
            yield from self._joined(rows, alone, np.full(len(alone), NO_MATCH))

    def _pairs(self, rows: pa.RecordBatch) -> Iterator[tuple[Longs, Longs]]:
        """The pairs of a row and one of the table."""
        keys = [rows.column(place) for place in self._join.keys[self._side]]
        for given, own in self._index.pairs(keys, rows.num_rows):
            if self._condition.is_always_true:
                yield given, own
            elif self._side == LEFT:
                yield self._condition.filtered((rows, self._rows), given, own)
            else:
                yield self._condition.filtered((self._rows, rows), own, given)[::-1]

    def _chosen(self, rows: pa.RecordBatch) -> Iterator[tuple[Longs, pa.RecordBatch]]:
        """The rows of a semi or anti join."""
        if self._condition.is_always_true:
            keys = [rows.column(place) for place in self._join.keys[self._side]]
            is_there = self._index.have(keys, rows.num_rows)
        else:
            is_there = np.zeros(rows.num_rows, np.bool_)
            for given, _ in self._pairs(rows):
                is_there[given] = True
        kept = np.flatnonzero(is_there == (self._kind is JoinType.SEMI))
        if len(kept):
            columns = [rows.column(place) for place in self._join.columns]
            if len(kept) < rows.num_rows:
                columns = [gather(each, kept) for each in columns]
            yield kept, pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _joined(self, rows: pa.RecordBatch, given: Longs, own: Longs) -> Iterator[tuple[Longs, pa.RecordBatch]]:
        if not len(given):
            return
        width = (rows if self._side == LEFT else self._rows).num_columns
        is_same = len(given) == rows.num_rows and bool((given == np.arange(len(given))).all())
        columns = []
        for place in self._join.columns:
            is_given = (place < width) == (self._side == LEFT)
            at = place if place < width else place - width
            if not is_given:
                columns.append(_at(self._rows.column(at), own))
            else:
                columns.append(rows.column(at) if is_same else gather(rows.column(at), given))
        yield given, pa.RecordBatch.from_arrays(columns, schema=self._schema)


class BroadcastJoinOperator(ExpressionOperator):
    """Emits the results of each batch at once.

    Args:
        join: the join.
        storage_options: how object stores are reached.
    """

    def __init__(self, join: BroadcastHashJoin, storage_options: Mapping[str, str]) -> None:
        super().__init__(join.definition.condition)
        self._join, self._storage_options = join, storage_options
        self._table: BuildTable | None = None

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        if self._table is None:
            self._table = self._join.table(ReadContext(self._join.build, self.context, self._storage_options))
        kind = self._join.definition.output_type
        for given, columns in self._table.probe(batch.columns):
            self.output.emit(batch.replaced(kind, columns=columns, sources=given))

    def close(self) -> None:
        self._table = None
        super().close()


def _at(column: pa.Array, places: Longs) -> pa.Array:
    """The values of a column at some places, NULL for ``NO_MATCH``."""
    is_missing = places == NO_MATCH
    if not is_missing.any():
        return gather(column, places)
    return column.take(pa.array(places, mask=is_missing))
