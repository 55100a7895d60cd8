"""Rows of bounded tables that a task computes for itself, whole: those to which a broadcast join joins its input.

They are read, filtered, joined and aggregated batch by batch in the task that needs them. Nothing is sent or stored,
and every task computes the same, since what it reads of the sources was fixed when the statement was planned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

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
_HELD_ROWS: Final = 1 << 20
"""The number of accumulators that are held before those of a key are merged."""


@dataclass(frozen=True)
class ReadContext:
    """The context that rows are computed in.

    Attributes:
        operator: the operator that needs the rows, which errors of expressions name.
        storage_options: how object stores are reached.
    """

    operator: OperatorContext
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BoundedRows(ABC):
    """Rows of bounded tables.

    Attributes:
        type: their type.
    """

    type: TypeInformation

    @abstractmethod
    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""

    @property
    def sources(self) -> tuple[SourceRows, ...]:
        """The rows of sources among those that they are computed from."""
        return ()

    def whole(self, context: ReadContext) -> pa.RecordBatch:
        """All rows in one batch.

        Raises:
            InvalidProgramError: when they take too much memory.
        """
        found, size = list[pa.RecordBatch](), 0
        for batch in self.batches(context):
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
        pieces: all that there is to read.
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
            pieces = tuple(pieces_of(splits, 0))
            splits.close()
        return SourceRows(source.produced_type, source, pieces, table)

    @property
    def sources(self) -> tuple[SourceRows, ...]:
        return (self,)

    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
        layout, reader = layout_of(self.type), self.source.create_reader()
        reader.open(ReaderContext(context.storage_options))
        try:
            for piece in self.pieces:
                for part in reader.read(piece):
                    columns = layout.rows_to_columns(part.rows or []) if part.columns is None else part.columns
                    if columns.num_rows:
                        yield columns
        finally:
            reader.close()


@dataclass(frozen=True)
class ConstantRows(BoundedRows):
    """Rows that are in the statement."""

    rows: pa.RecordBatch

    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
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
    def sources(self) -> tuple[SourceRows, ...]:
        return self.input.sources

    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
        given, row_filter = self.input.type, None if self.condition is None else RowFilter(self.condition)
        for rows in self.input.batches(context):
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

    inputs: tuple[BoundedRows, ...]

    @property
    def sources(self) -> tuple[SourceRows, ...]:
        return tuple(found for each in self.inputs for found in each.sources)

    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
        for each in self.inputs:
            yield from each.batches(context)


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
    def sources(self) -> tuple[SourceRows, ...]:
        return self.input.sources

    def batches(self, context: ReadContext) -> Iterator[pa.RecordBatch]:
        layout, aggregators = self.layout, self.layout.aggregators
        found = _merged(layout, self._held(context))
        if found is None and self.nothing is None:
            return
        if found is None:
            keys, columns = pa.array([0], layout.codec.arrow_type), list(self.nothing or ())
        else:
            keys, columns = found.keys, aggregators.settle(found.columns)
        yield layout.finish(keys, (), columns)

    def _held(self, context: ReadContext) -> list[Accumulators]:
        """Accumulators, of which several may be of one key."""
        held, count, merged = list[Accumulators](), 0, 0
        for rows in self.input.batches(context):
            held.append(self._accumulators(rows, context))
            count += len(held[-1])
            if count >= max(_HELD_ROWS, 2 * merged) and (found := _merged(self.layout, held)) is not None:
                held, count, merged = [found], len(found), len(found)
        return held

    def _accumulators(self, rows: pa.RecordBatch, context: ReadContext) -> Accumulators:
        batch = _as_batch(self.input.type, rows)
        (keys,) = computed((self.key,), batch, context.operator)
        keyed = KeyedBatch.of(batch, self.layout.codec.from_array(keys))
        columns = self.layout.inputs_of(keyed, context.operator)
        chunk = Chunk.of(keyed, columns, np.arange(rows.num_rows))
        return accumulators_of_records(self.layout, [chunk], [False])


def _merged(layout: ColumnarWindowLayout, held: Sequence[Accumulators]) -> Accumulators | None:
    """One row for each key; None where there is none."""
    return merged_in_mini_batches(layout.aggregators, Accumulators.concat(held)) if held else None
