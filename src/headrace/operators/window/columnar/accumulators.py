"""Accumulators of windows: which columns they have, how they are made of records, merged, and read as results.

A table of :class:`Accumulators` is sorted by (window end, hash, key). :class:`ColumnarWindowLayout` says which
aggregators make its columns, and which columns are emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import attrgetter, is_
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, fixed_width, gather
from headrace.common.batch import Batch
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import schema_of
from headrace.expressions import Bound
from headrace.operators.aggregates.aggregate import BindableAggregate
from headrace.operators.aggregates.aggregator import (
    Aggregator,
    AggregatorList,
    BoundAggregate,
    DerivedColumn,
    GroupedRows,
    Input,
    ScatteredRows,
    with_new_names,
)
from headrace.operators.aggregates.simple import CountRows, KeyField
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.stateless import computed
from headrace.operators.user_code import OperatorPlace
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import hash_array
from headrace.state.runs.grouping import Groups, Segments, group_rows, group_times
from headrace.state.runs.key_dictionary import KeyDictionary
from headrace.windowing.intervals import Assignment
from headrace.windowing.windows import TimeWindowSerializer

Longs = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


MOST_PAIRS: Final = 1 << 19
"""The number of pairs of a record and a window that are made at a time."""

_NO_END: Final = np.int64(0)


class ArrivalCounter:
    """Numbers the records of a subtask: by epoch, and within it one by one.

    Args:
        epoch: the epoch.
        are_needed: whether they are needed; else all records have the number 0, which takes no memory.
    """

    _SEQUENCE_BITS = 30

    def __init__(self, epoch: int, *, are_needed: bool = True) -> None:
        self._next = epoch << self._SEQUENCE_BITS
        self._are_needed = are_needed

    def next(self, count: int) -> Longs:
        """Numbers for the next records."""
        if not self._are_needed:
            return np.broadcast_to(np.int64(0), count)
        first = self._next
        self._next += count
        return np.arange(first, self._next)


@dataclass(frozen=True)
class Chunk:
    """Pairs of a record and a window, or a pane, that are not aggregated yet.

    Attributes:
        ends: the end of the window or pane of each pair.
        hashes: the hash of the record's key.
        keys: the record's key.
        columns: the input columns that the aggregators need, by what they are of the input.
        arrivals: when each record came.
    """

    ends: Longs
    hashes: Hashes
    keys: pa.Array
    columns: Mapping[Input, pa.Array]
    arrivals: Longs

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """Return how much memory the columns take."""
        size = sum(map(attrgetter("nbytes"), (self.hashes, self.keys, *self.columns.values())))
        for times in (self.ends, self.arrivals):
            size += times.nbytes if times.strides != (0,) else 0
        return int(size)

    @staticmethod
    def of(batch: KeyedBatch, columns: Mapping[Input, pa.Array], arrivals: Longs) -> Chunk:
        """The records of a batch, whose windows are not known yet: all have the end 0."""
        return Chunk(np.broadcast_to(_NO_END, len(batch)), batch.keys.hashes, batch.keys.values, columns, arrivals)

    def spread(self, pairs: Assignment) -> Chunk:
        """Each record once for each of its windows."""
        if pairs.is_identity:
            return Chunk(pairs.ends, self.hashes, self.keys, self.columns, self.arrivals)
        rows = pairs.records
        columns = {index: gather(column, rows) for index, column in self.columns.items()}
        return Chunk(pairs.ends, self.hashes[rows], gather(self.keys, rows), columns, self.arrivals[rows])

    def take(self, rows: Longs) -> Chunk:
        """The pairs at ``rows``, in that order."""
        columns = {index: gather(column, rows) for index, column in self.columns.items()}
        return Chunk(self.ends[rows], self.hashes[rows], gather(self.keys, rows), columns, self.arrivals[rows])

    def slice(self, start: int, stop: int) -> Chunk:
        """The pairs from ``start`` up to ``stop``; nothing is copied."""
        length = stop - start
        columns = {index: column.slice(start, length) for index, column in self.columns.items()}
        keys = self.keys.slice(start, length)
        return Chunk(self.ends[start:stop], self.hashes[start:stop], keys, columns, self.arrivals[start:stop])

    def accumulated(self, aggregators: AggregatorList, groups: Groups) -> list[pa.Array]:
        """The columns of the accumulator of each group of pairs."""
        blocks = [aggregators.accumulate(GroupedRows(self.columns, self.arrivals, block)) for block in groups.blocks()]
        return [concat(list(pieces)) for pieces in zip(*blocks, strict=True)]

    def retracted(self, aggregators: AggregatorList, groups: Groups) -> list[pa.Array]:
        """The columns of accumulators that take each group of pairs away from those they are merged with."""
        return aggregators.retract(GroupedRows(self.columns, self.arrivals, groups))

    @staticmethod
    def concat(chunks: Sequence[Chunk]) -> Chunk:
        """The pairs of all chunks, of which there is at least one."""
        if len(chunks) == 1:
            return chunks[0]
        return Chunk(
            _joined([chunk.ends for chunk in chunks]),
            np.concatenate([chunk.hashes for chunk in chunks]),
            concat([chunk.keys for chunk in chunks]),
            {index: concat([chunk.columns[index] for chunk in chunks]) for index in chunks[0].columns},
            _joined([chunk.arrivals for chunk in chunks]),
        )


@dataclass(frozen=True)
class Accumulators:
    """Rows of accumulators: at most one a key and window once they are merged.

    Attributes:
        ends: the end of each row's window.
        hashes: the hash of each row's key.
        keys: each row's key.
        columns: the columns of the aggregators.
    """

    ends: Longs
    hashes: Hashes
    keys: pa.Array
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def windows(self) -> tuple[Longs, Longs]:
        """The ends of the windows, ascending, and where the rows of each begin (and the total); only when sorted."""
        return group_times(self.ends)

    def slice(self, start: int, stop: int) -> Accumulators:
        """The rows from ``start`` up to ``stop``."""
        length = stop - start
        columns = [column.slice(start, length) for column in self.columns]
        return Accumulators(self.ends[start:stop], self.hashes[start:stop], self.keys.slice(start, length), columns)

    def take(self, rows: Longs) -> Accumulators:
        """The rows at ``rows``, in that order."""
        columns = [gather(column, rows) for column in self.columns]
        return Accumulators(self.ends[rows], self.hashes[rows], gather(self.keys, rows), columns)

    def spread(self, pairs: Assignment) -> Accumulators:
        """Rows of panes as rows of windows."""
        rows = self.take(pairs.records)
        return Accumulators(pairs.ends, rows.hashes, rows.keys, rows.columns)

    def where(self, mask: Mask) -> Accumulators:
        """The rows where ``mask`` is true."""
        return self.take(np.flatnonzero(mask))

    def at(self, end: int) -> Accumulators:
        """The same rows as those of one window."""
        return Accumulators(np.full(len(self), end, np.int64), self.hashes, self.keys, self.columns)

    @staticmethod
    def concat(pieces: Sequence[Accumulators]) -> Accumulators:
        """The rows of all pieces, of which there is at least one."""
        if len(pieces) == 1:
            return pieces[0]
        return Accumulators(
            np.concatenate([piece.ends for piece in pieces]),
            np.concatenate([piece.hashes for piece in pieces]),
            concat([piece.keys for piece in pieces]),
            [concat(list(columns)) for columns in zip(*map(attrgetter("columns"), pieces), strict=True)],
        )

    @staticmethod
    def of_chunk(aggregators: AggregatorList, chunk: Chunk, known: KeyDictionary | None = None) -> Accumulators:
        """The accumulators of each key and window in a chunk; ``known`` are keys that may save sorting it."""
        ranked = None if known is None else known.group(chunk.ends, chunk.hashes, chunk.keys)
        if ranked is not None:
            columns = aggregators.accumulate(ScatteredRows(chunk.columns, ranked.segments))
            return Accumulators(ranked.times, ranked.hashes, ranked.keys, columns)
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        first = groups.first_rows
        columns = chunk.accumulated(aggregators, groups)
        return Accumulators(chunk.ends[first], chunk.hashes[first], gather(chunk.keys, first), columns)

    @staticmethod
    def taken_back(aggregators: AggregatorList, chunk: Chunk) -> Accumulators:
        """Accumulators that retract the records of a chunk, by key and window, when they are merged."""
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        first = groups.first_rows
        columns = chunk.retracted(aggregators, groups)
        return Accumulators(chunk.ends[first], chunk.hashes[first], gather(chunk.keys, first), columns)

    @staticmethod
    def merged(
        aggregators: AggregatorList, pieces: Sequence[Accumulators], known: KeyDictionary | None = None
    ) -> Accumulators:
        """One row a key and window, of pieces that are sorted and merged each; earlier pieces came earlier."""
        pieces = list(filter(len, pieces)) or list(pieces[:1])
        if all(before.ends[-1] < after.ends[0] for before, after in pairwise(pieces)):
            return Accumulators.concat(pieces)
        return Accumulators.regrouped(aggregators, pieces, known)

    @staticmethod
    def regrouped(
        aggregators: AggregatorList, pieces: Sequence[Accumulators], known: KeyDictionary | None = None
    ) -> Accumulators:
        """One row a key and window, of rows in any order; earlier rows came earlier."""
        rows = Accumulators.concat(pieces)
        ranked = None if known is None else known.group(rows.ends, rows.hashes, rows.keys)
        if ranked is not None:
            columns = aggregators.merge(rows.columns, ranked.segments)
            return Accumulators(ranked.times, ranked.hashes, ranked.keys, columns)
        groups = group_rows(rows.ends, rows.hashes, rows.keys)
        first = groups.first_rows
        columns = aggregators.merge([gather(column, groups.order) for column in rows.columns], groups.segments)
        return Accumulators(rows.ends[first], rows.hashes[first], gather(rows.keys, first), columns)

    @staticmethod
    def of_batch(batch: pa.RecordBatch) -> Accumulators:
        """The rows of a batch as they are in state; nothing is copied."""
        ends, hashes, keys, *columns = batch.columns
        return Accumulators(fixed_width(ends), fixed_width(hashes), keys, columns)

    def to_batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The rows as they are in state: window end, hash, key, and the other columns."""
        arrays = [pa.array(self.ends), pa.array(self.hashes), self.keys, *self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _joined(pieces: Sequence[Longs]) -> Longs:
    """Columns one after the other; one figure that is repeated where each of them is, and it is the same."""
    if all(piece.strides == (0,) for piece in pieces) and len({int(piece[0]) for piece in pieces if len(piece)}) == 1:
        value = next(piece[0] for piece in pieces if len(piece))
        return np.broadcast_to(value, sum(map(len, pieces)))
    return np.concatenate(pieces)


def accumulators_of(batch: Batch) -> Accumulators:
    """The rows of a batch that the sender's half of a window aggregation has made."""
    ends, keys, *columns = batch.columns.columns
    hashes = batch.keys.hashes if isinstance(batch, KeyedBatch) else hash_array(keys)
    return Accumulators(fixed_width(ends), hashes, keys, columns)


def stretches(*columns: Longs) -> Segments:
    """The stretches of rows in which all columns stay the same."""
    is_new = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[1:] != column[:-1]
    return Segments(np.flatnonzero(is_new), len(columns[0]))


PARTS: Final = "parts"
"""The description that stored accumulators have of the aggregators that made them."""

_LONG: Final = Types.LONG()

_CANONICAL_TYPES = {pa.int64(): _LONG, pa.string(): Types.STRING(), pa.binary(): Types.BYTES()}


@dataclass(frozen=True)
class ColumnarWindowLayout:
    """The columns of one columnar window; made when the job is planned, picklable.

    Attributes:
        codec: how keys are stored.
        key_names: the names of the key's columns in the output; none where all records have one key.
        key_fields: the fields of the key, when they are remembered beside the canonical key; else, and where equal keys
            may look different, the columns of the key are made from the canonical key.
        aggregates: what is computed.
        window_names: the names of the columns in the output that identify the window.
        renamed: which fields of the records have other names than in what is stored.
        retracts: whether records may be retracted.
    """

    codec: KeyCodec
    key_names: tuple[str, ...]
    key_fields: tuple[KeyField, ...]
    aggregates: tuple[BoundAggregate, ...]
    window_names: tuple[str, ...] = TimeWindowSerializer.names
    renamed: RenamedFields = NOTHING_RENAMED
    retracts: bool = False

    @staticmethod
    def of(
        input_type: TypeInformation,
        codec: KeyCodec,
        aggregates: Sequence[BindableAggregate],
        key_fields: Sequence[str | int] | None = None,
        key_names: tuple[str, ...] | None = None,
        window_names: tuple[str, ...] = TimeWindowSerializer.names,
        *,
        retracts: bool = False,
    ) -> ColumnarWindowLayout:
        """The layout of a window.

        Args:
            input_type: the type of the records.
            codec: how keys are stored.
            aggregates: what is computed; none where only keys are wanted.
            key_fields: the fields that the key is made of, which become columns of the output.
            key_names: what the columns of the key are called: one for the key as it is, several for the fields of a
                tuple, none to leave the key out; by default they have the names of the fields, or are one ``key``.
            window_names: the names of the columns in the output that identify the window.
            retracts: whether records may be retracted.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when two columns of the output have the same name; and when records may be retracted,
                and an aggregate cannot do that.
        """
        indices = [input_type.field_index(field) for field in key_fields or ()]
        names = tuple(input_type.field_names[index] for index in indices)
        is_kept_as_is = len(indices) <= 1 and codec.gives_columns
        fields = [KeyField(i, input_type.field_names[i], input_type.field_types[i]) for i in indices]
        layout = ColumnarWindowLayout(
            codec,
            (names or ("key",)) if key_names is None else key_names,
            () if is_kept_as_is else tuple(fields),
            tuple(aggregate.bind(input_type, retracts=retracts) for aggregate in aggregates),
            window_names,
            retracts=retracts,
        )
        assert layout.output_type.is_composite  # made now, so that its names are checked here and not in a task
        return layout

    def of_operator(self, place: OperatorPlace, renamed: RenamedFields = NOTHING_RENAMED) -> ColumnarWindowLayout:
        """The same layout in an operator.

        Args:
            place: the operator, which is named where functions of the user fail.
            renamed: which fields of its records have other names than in what is stored.
        """
        changed = {one: one.of_operator(place) for one in self.aggregators.aggregators}
        if renamed == self.renamed and all(map(is_, changed, changed.values())):
            return self
        aggregates = tuple(
            replace(each, aggregators=tuple(changed[one] for one in each.aggregators)) for each in self.aggregates
        )
        return replace(self, aggregates=aggregates, renamed=renamed)

    def named_now(self, about: dict[str, Any]) -> dict[str, Any]:
        """Return the description of stored accumulators, with the present names of fields."""
        if not (self.renamed and PARTS in about):
            return about
        return {**about, PARTS: with_new_names(about[PARTS], self.renamed)}

    @cached_property
    def output_type(self) -> TypeInformation:
        """The type of what the window emits: the key, the columns that identify the window, the aggregates."""
        names = (*self.key_names, *self.window_names, *(a.name for a in self.aggregates))
        if len(set(names)) < len(names):
            repeated = min(name for name in names if names.count(name) > 1)
            raise InvalidProgramError(
                f"the output of aggregate(...) has two columns {repeated!r}: name one of them with .alias(...)"
            )
        made = self.codec.type.field_types if len(self.key_names) > 1 else (self.codec.type,) * len(self.key_names)
        keys = tuple(field.type for field in self.key_fields) or made
        windows = (_LONG,) * len(self.window_names)
        return RowTypeInfo((*keys, *windows, *(a.type for a in self.aggregates)), names)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The columns of what the window emits."""
        return schema_of(self.output_type)

    @cached_property
    def aggregators(self) -> AggregatorList:
        """Return what is remembered for a key and window, each thing once; the number of records comes first."""
        aggregators: dict[Aggregator, None] = {CountRows(): None}
        aggregators |= dict.fromkeys(self.key_fields)
        for aggregate in self.aggregates:
            aggregators |= dict.fromkeys(aggregate.aggregators)
        return AggregatorList(tuple(aggregators))

    @property
    def width(self) -> int:
        """Return how many columns accumulators have."""
        return len(self.contents_type.field_names)

    @cached_property
    def is_ordered(self) -> bool:
        """Return whether results depend on the order in which records come."""
        return any(map(attrgetter("is_ordered"), self.aggregates))

    @cached_property
    def contents_type(self) -> RowTypeInfo:
        """The type of the accumulators of one key and window."""
        fields = map(attrgetter("fields"), self.aggregators.aggregators)
        names, types = zip(*chain.from_iterable(fields), strict=True)
        return RowTypeInfo(types, names)

    @cached_property
    def accumulator_type(self) -> TypeInformation:
        """The type of a row of accumulators, as it travels from the sender's side of a shuffle."""
        contents, key = self.contents_type, _CANONICAL_TYPES[self.codec.arrow_type]
        return RowTypeInfo((_LONG, key, *contents.field_types), ("window_end", "key", *contents.field_names))

    @cached_property
    def accumulator_schema(self) -> pa.Schema:
        """The columns of rows of accumulators that travel."""
        return schema_of(self.accumulator_type)

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The columns of accumulators in state: the same, and the hash of the key."""
        return self.accumulator_schema.insert(1, pa.field("hash", pa.uint64()))

    def inputs_of(self, batch: Batch, context: OperatorContext) -> dict[Input, pa.Array]:
        """The columns that the aggregators look at: fields of the records, and expressions over them.

        Raises:
            UserFunctionError: when an expression has no value for a record.
        """
        found: dict[Input, pa.Array] = {}
        expressions: list[Bound] = []
        for source in self.aggregators.inputs:
            if isinstance(source, int):
                found[source] = batch.columns.column(source)
            elif isinstance(source, DerivedColumn):
                found[source] = source.of(batch.columns)
            else:
                expressions.append(source)
        if expressions:
            found |= zip(expressions, computed(tuple(expressions), batch, context), strict=True)
        return found

    def finish(self, keys: pa.Array, windows: Sequence[pa.Array], columns: list[pa.Array]) -> pa.RecordBatch:
        """The output rows of final accumulators.

        Args:
            keys: the keys.
            windows: the columns that identify their windows.
            columns: the accumulators.
        """
        results = self.aggregators.results(columns)
        values = [
            aggregate.emit(list(map(results.__getitem__, aggregate.aggregators))) for aggregate in self.aggregates
        ]
        return self.rows(keys, windows, results, values)

    def rows(
        self,
        keys: pa.Array,
        windows: Sequence[pa.Array],
        results: Mapping[Aggregator, pa.Array],
        values: list[pa.Array],
    ) -> pa.RecordBatch:
        """The output rows of keys.

        Args:
            keys: the keys.
            windows: the columns that identify their windows.
            results: what aggregators give, those of the fields of the key at least.
            values: the columns of the aggregates.
        """
        columns = [*self.key_columns(keys, results), *windows, *values]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def key_columns(self, keys: pa.Array, results: Mapping[Aggregator, pa.Array]) -> list[pa.Array]:
        """The columns of keys.

        Args:
            keys: the keys.
            results: what aggregators give, those of the fields of the key at least.
        """
        if self.key_fields and all(field.is_canonical for field in self.key_fields):
            return [results[field] for field in self.key_fields]
        if not self.key_names:
            return []
        column = self.codec.to_array(keys)
        is_whole = len(self.key_names) == 1 and all(field.type == self.codec.type for field in self.key_fields)
        return [column] if is_whole else column.flatten()
