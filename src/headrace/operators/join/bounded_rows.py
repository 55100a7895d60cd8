"""Rows of bounded tables that a task computes for itself, whole: those to which a broadcast join joins its input.

They are read, filtered, joined and aggregated batch by batch in the task that needs them. Every task has the same,
since what it reads of the sources was fixed when the statement was planned. Tasks on one machine divide the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo.composite import schema_of
from headrace.connectors.source import EnumeratorContext, ReaderContext, Source
from headrace.expressions.filtering import RowFilter
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.join.divided_work import Compute, DividedWork
from headrace.operators.lookup.readers import pieces_of
from headrace.operators.mini_batch import accumulators_of_records, merged_in_mini_batches
from headrace.operators.stateless import computed, rows_that_meet
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.storage.folder import posix_folder

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

_LARGEST: Final = 1 << 30
"""The most bytes of rows that a task has whole."""
_ROWS_OF_PART: Final = 1 << 16
"""The rows of a source are cut into parts of at least about so many."""
_HELD_ROWS: Final = 1 << 20
"""The number of accumulators that are held before those of a key are merged."""


Made = TypeVar("Made")


class ReadContext:
    """The context that the rows of an operator are computed in.

    Args:
        rows: the rows that the operator needs, and with them those that they are computed from.
        operator: the operator, which errors of expressions name.
        storage_options: how object stores are reached.
    """

    def __init__(self, rows: BoundedRows, operator: OperatorContext, storage_options: Mapping[str, str]) -> None:
        self.operator, self.storage_options = operator, storage_options
        folder = operator.machine_folder
        self._work = None if folder is None else DividedWork(folder, operator.uid)
        self._numbers = {id(each): number for number, each in enumerate(rows.walk())}
        self._made: dict[int, Any] = {}

    def batches(self, rows: BoundedRows) -> Iterator[pa.RecordBatch]:
        """The batches of all parts of some rows, in order."""
        return self.divided(rows, rows.parts, partial(rows.part, context=self))

    def divided(self, rows: BoundedRows, parts: int, compute: Compute) -> Iterator[pa.RecordBatch]:
        """The batches of all parts of a computation, in order; other tasks on this machine compute some of them."""
        if self._work is None or parts == 1:
            return chain.from_iterable(map(compute, range(parts)))
        return self._work.results(self._numbers[id(rows)], parts, compute)

    def once(self, rows: BoundedRows, make: Callable[[], Made]) -> Made:
        """The object that the first of these calls for some rows makes."""
        if id(rows) not in self._made:
            self._made[id(rows)] = make()
        made: Made = self._made[id(rows)]
        return made


@dataclass(frozen=True)
class BoundedRows(ABC):
    """Rows of bounded tables, in parts that can be computed apart from each other.

    Attributes:
        type: their type.
    """

    type: TypeInformation

    @abstractmethod
    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some at a time."""

    @property
    def parts(self) -> int:
        """The number of the parts."""
        return 1

    @property
    def inputs(self) -> tuple[BoundedRows, ...]:
        """The rows that they are computed from."""
        return ()

    def walk(self) -> Iterator[BoundedRows]:
        """These rows, and all that they are computed from."""
        yield self
        for each in self.inputs:
            yield from each.walk()

    @property
    def sources(self) -> tuple[SourceRows, ...]:
        """The rows of sources among those that they are computed from."""
        return tuple(each for each in self.walk() if isinstance(each, SourceRows))

    def whole(self, context: ReadContext) -> pa.RecordBatch:
        """All rows in one batch.

        Raises:
            InvalidProgramError: when they take too much memory.
        """
        found, size = list[pa.RecordBatch](), 0
        for batch in context.batches(self):
            found.append(batch)
            size += batch.nbytes
            if size > _LARGEST:
                raise InvalidProgramError(
                    f"an input of the join {context.operator.name!r} takes more than {_LARGEST >> 20} MiB, though "
                    "statistics of its tables say that every task can have it: set "
                    "'table.optimizer.join.broadcast-threshold' = '-1' for the statement, and it is shuffled"
                )
        return pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], schema_of(self.type))


def _as_batch(kind: TypeInformation, columns: pa.RecordBatch) -> Batch:
    """Columns as a batch without times."""
    count = columns.num_rows
    times = np.broadcast_to(np.int64(NO_TIMESTAMP), count), np.broadcast_to(np.int64(MIN_WATERMARK), count)
    return Batch(kind, *times, columns=columns)


@dataclass(frozen=True)
class SourceRows(BoundedRows):
    """The rows of a source.

    Attributes:
        source: the source.
        pieces: all that there is to read; each is a part.
        table: the full name of the table.
    """

    source: Source[Any]
    pieces: tuple[Any, ...]
    table: str

    @staticmethod
    def of(source: Source[Any], storage_options: Mapping[str, str], table: str) -> SourceRows:
        """The rows that a bounded source, of a table, has now."""
        with TemporaryDirectory() as folder:
            context = EnumeratorContext(1, posix_folder(Path(folder)), storage_options=storage_options)
            splits = source.create_enumerator(context)
            pieces = tuple(pieces_of(splits, 0, _ROWS_OF_PART))
            splits.close()
        return SourceRows(source.produced_type, source, pieces, table)

    @property
    def parts(self) -> int:
        return len(self.pieces)

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        layout, reader = layout_of(self.type), self.source.create_reader()
        reader.open(ReaderContext(context.storage_options))
        try:
            for read in reader.read(self.pieces[number]):
                columns = layout.rows_to_columns(read.rows or []) if read.columns is None else read.columns
                if columns.num_rows:
                    yield columns
        finally:
            reader.close()


@dataclass(frozen=True)
class ConstantRows(BoundedRows):
    """Rows that are in the statement."""

    rows: pa.RecordBatch

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        if self.rows.num_rows:
            yield self.rows


@dataclass(frozen=True)
class CalculatedRows(BoundedRows):
    """Columns that are computed from the rows that meet a condition.

    Attributes:
        input: the rows.
        condition: the condition; None to keep all.
        columns: the columns; None for those of the input.
    """

    input: BoundedRows
    condition: Bound | None
    columns: tuple[Bound, ...] | None

    @property
    def inputs(self) -> tuple[BoundedRows, ...]:
        return (self.input,)

    @property
    def parts(self) -> int:
        return self.input.parts

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        given, row_filter = self.input.type, None if self.condition is None else RowFilter(self.condition)
        for rows in self.input.part(number, context):
            kept = rows
            if row_filter is not None:
                places = rows_that_meet(row_filter, _as_batch(given, rows), context.operator)
                kept = rows if places is None else rows.take(pa.array(places))
            if not kept.num_rows:
                continue
            if self.columns is not None:
                made = computed(self.columns, _as_batch(given, kept), context.operator)
                kept = pa.RecordBatch.from_arrays(made, schema=schema_of(self.type))
            yield kept


@dataclass(frozen=True)
class UnitedRows(BoundedRows):
    """The rows of several inputs, all of one type."""

    arms: tuple[BoundedRows, ...]

    @property
    def inputs(self) -> tuple[BoundedRows, ...]:
        return self.arms

    @property
    def parts(self) -> int:
        return sum(each.parts for each in self.arms)

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        for each in self.arms:
            if number < each.parts:
                yield from each.part(number, context)
                return
            number -= each.parts


@dataclass(frozen=True)
class AggregatedRows(BoundedRows):
    """Aggregates of the groups of rows.

    Attributes:
        input: the rows.
        key: computes the key of each.
        layout: the aggregates.
        nothing: the accumulators of the result where there is no row; None for none.
    """

    input: BoundedRows
    key: Bound
    layout: ColumnarWindowLayout
    nothing: tuple[pa.Array, ...] | None

    @property
    def inputs(self) -> tuple[BoundedRows, ...]:
        return (self.input,)

    def part(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        layout, aggregators = self.layout, self.layout.aggregators
        batches = context.divided(self, self.input.parts, partial(self._partial, context=context))
        found = self._merged(map(_accumulators_in, batches))
        if found is None and self.nothing is None:
            return
        if found is None:
            keys, columns = pa.array([0], layout.codec.arrow_type), list(self.nothing or ())
        else:
            keys, columns = found.keys, aggregators.settle(found.columns)
        yield layout.finish(keys, (), columns)

    def _partial(self, number: int, context: ReadContext) -> Iterator[pa.RecordBatch]:
        """The accumulators of a part of the input."""
        found = self._merged(self._accumulators(rows, context) for rows in self.input.part(number, context))
        if found is not None:
            columns = [pa.array(found.ends), pa.array(found.hashes), found.keys, *found.columns]
            yield pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns)))))

    def _accumulators(self, rows: pa.RecordBatch, context: ReadContext) -> Accumulators:
        batch = _as_batch(self.input.type, rows)
        (keys,) = computed((self.key,), batch, context.operator)
        keyed = KeyedBatch.of(batch, self.layout.codec.from_array(keys))
        columns = self.layout.inputs_of(keyed, context.operator)
        chunk = Chunk.of(keyed, columns, np.arange(rows.num_rows))
        return accumulators_of_records(self.layout, [chunk], [False])

    def _merged(self, pieces: Iterator[Accumulators]) -> Accumulators | None:
        """One row for each key; None where there is none."""
        held, count, merged = list[Accumulators](), 0, 0
        for piece in pieces:
            held.append(piece)
            count += len(piece)
            if count >= max(_HELD_ROWS, 2 * merged):
                held = [self._merged_rows(held)]
                count = merged = len(held[0])
        return self._merged_rows(held) if held else None

    def _merged_rows(self, held: Sequence[Accumulators]) -> Accumulators:
        return merged_in_mini_batches(self.layout.aggregators, Accumulators.concat(held))


def _accumulators_in(batch: pa.RecordBatch) -> Accumulators:
    ends, hashes, keys, *columns = batch.columns
    return Accumulators(ends.to_numpy(), hashes.to_numpy(), keys, columns)
