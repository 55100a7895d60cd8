"""Operators that make several rows of one: of elements of a collection, by a count, or by projections."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import list_lengths
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.composite import schema_of
from headrace.expressions import Bound
from headrace.operators.base import Operator, OperatorContext
from headrace.operators.stateless import ExpressionOperator, computed

Longs = npt.NDArray[np.int64]


class CollectionKind(Enum):
    """The kinds of collections, which differ in the columns that their elements become."""

    ARRAY = "array"
    """Elements, each a column."""
    ROWS = "rows"
    """Rows, each field a column; an element that is no row is left out."""
    MAP = "map"
    """Keys and values."""
    MULTISET = "multiset"
    """Elements, each as often as it is there."""


@dataclass(frozen=True)
class _Elements:
    """The elements of the collections of a batch.

    Attributes:
        columns: the elements.
        parents: the row that each is of.
        ordinals: its place in the collection, from 1.
    """

    columns: list[pa.Array]
    parents: Longs
    ordinals: Longs

    def take(self, places: npt.NDArray[Any]) -> _Elements:
        """Some of them, or one several times."""
        columns = [column.take(pa.array(places)) for column in self.columns]
        return _Elements(columns, self.parents[places], self.ordinals[places])


def _elements(collections: pa.Array, kind: CollectionKind) -> _Elements:
    if isinstance(collections, pa.Scalar):
        collections = pa.array([collections.as_py()], collections.type)
    lengths = list_lengths(_as_lists(collections))
    parents = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(lengths)
    ordinals = np.arange(len(parents)) - np.repeat(ends - lengths, lengths) + 1
    found = _Elements([_as_lists(collections).flatten()], parents, ordinals)
    if kind is CollectionKind.ARRAY:
        return found
    if kind is CollectionKind.ROWS:
        there = found.take(np.flatnonzero(np.asarray(found.columns[0].is_valid())))
        return _Elements(there.columns[0].flatten(), there.parents, there.ordinals)
    entries = found.columns[0].flatten()
    if kind is CollectionKind.MAP:
        return _Elements(entries, parents, ordinals)
    counts = entries[1].to_numpy(zero_copy_only=False)
    return _Elements(entries[:1], parents, ordinals).take(np.repeat(np.arange(len(counts)), counts))


def _as_lists(collections: pa.Array) -> pa.Array:
    if not pa.types.is_map(collections.type):
        return collections
    entry = pa.struct([collections.type.key_field, collections.type.item_field])
    return collections.cast(pa.list_(entry))


class UnnestOperator(ExpressionOperator):
    """A row for each element of a collection, with the columns of the row that it is of before it.

    Args:
        collection: gives the collections.
        kind: what they are.
        with_ordinality: whether the place of the element is the last column.
        keeps_empty: whether a row without elements is kept, with nulls in their place.
        output_type: the type of the rows.
        condition: of the rows with their elements: where it is not true, it is as if the element were not there.
    """

    def __init__(
        self,
        collection: Bound,
        kind: CollectionKind,
        output_type: TypeInformation,
        *,
        with_ordinality: bool,
        keeps_empty: bool,
        condition: Bound | None = None,
    ) -> None:
        super().__init__(collection, condition)
        self._collection = collection
        self._kind = kind
        self._with_ordinality = with_ordinality
        self._rows = ExpandedRows(output_type, condition, keeps_empty)

    def process(self, input_index: int, batch: Batch) -> None:
        (collections,) = computed((self._collection,), batch, self.context)
        found = _elements(collections, self._kind)
        added = [*found.columns, *([pa.array(found.ordinals)] if self._with_ordinality else [])]
        made = self._rows.expanded(batch, found.parents, added, self.context)
        if made is not None:
            self.output.emit(made)


@dataclass(frozen=True, slots=True)
class ExpandedRows:
    """Rows with what belongs to each, an element or a row of another table, in columns behind their own.

    Attributes:
        output_type: the type of the rows.
        condition: which rows are there: where it is not true, it is as if nothing belonged to the row.
        keeps_empty: whether a row to which nothing belongs is kept, with nulls in the columns.
        numbers: whether the last column is the number of each thing among those of its row, from 1; null for a row
            to which nothing belongs.
    """

    output_type: TypeInformation
    condition: Bound | None
    keeps_empty: bool
    numbers: bool = False

    def expanded(self, batch: Batch, parents: Longs, added: list[pa.Array], context: OperatorContext) -> Batch | None:
        """The rows; None if there are none.

        Args:
            batch: the rows that come.
            parents: the row to which each thing belongs, in ascending order.
            added: the columns of these things.
            context: the operator.
        """
        if self.condition is not None and len(parents):
            made = self._made(batch, parents, self._numbered(parents, added))
            (mask,) = computed((self.condition,), made, context)
            kept = np.flatnonzero(np.asarray(mask.fill_null(False)))
            parents, added = parents[kept], [column.take(pa.array(kept)) for column in added]
        added = self._numbered(parents, added)
        if self.keeps_empty:
            parents, added = _with_empty(parents, added, len(batch))
        return self._made(batch, parents, added) if len(parents) else None

    def _numbered(self, parents: Longs, added: list[pa.Array]) -> list[pa.Array]:
        if not self.numbers:
            return added
        return [*added, pa.array(np.arange(len(parents)) - np.searchsorted(parents, parents) + 1)]

    def _made(self, batch: Batch, parents: Longs, added: list[pa.Array]) -> Batch:
        schema = layout_of(self.output_type).schema
        given = batch.columns.take(pa.array(parents)).columns
        fields = list(schema)[len(given) :]
        columns = [*given, *(column.cast(field.type) for column, field in zip(added, fields, strict=True))]
        made = pa.RecordBatch.from_arrays(columns, schema=schema)
        return batch.replaced(self.output_type, columns=made, sources=parents)


def _with_empty(parents: Longs, columns: list[pa.Array], count: int) -> tuple[Longs, list[pa.Array]]:
    """The rows with a row of nulls added in place for each parent without elements (as for a left join)."""
    empty = np.setdiff1d(np.arange(count), parents)
    order = np.argsort(np.concatenate((parents, empty)), kind="stable")
    extended = [pa.concat_arrays([column, pa.nulls(len(empty), column.type)]) for column in columns]
    return np.concatenate((parents, empty))[order], [column.take(pa.array(order)) for column in extended]


class ReplicateRowsOperator(Operator):
    """Each row as often as its first column says, with its other columns once more behind.

    Args:
        output_type: the type of the rows.
    """

    def __init__(self, output_type: TypeInformation) -> None:
        super().__init__()
        self._output_type = output_type

    def process(self, input_index: int, batch: Batch) -> None:
        counts, *columns = given = batch.columns.columns
        parents = np.repeat(np.arange(len(batch)), counts.fill_null(0).to_numpy(zero_copy_only=False))
        if len(parents):
            taken = [column.take(pa.array(parents)) for column in (*given, *columns)]
            made = pa.RecordBatch.from_arrays(taken, schema=layout_of(self._output_type).schema)
            self.output.emit(batch.replaced(self._output_type, columns=made, sources=parents))


class ExpandOperator(Operator):
    """Emits a row of each projection for each record, one after the other.

    Args:
        projections: the columns of each row; None for a column that is null.
        numbers: the value of the last column in each row.
        output_type: the type of the rows.
    """

    def __init__(
        self, projections: tuple[tuple[int | None, ...], ...], numbers: tuple[int, ...], output_type: TypeInformation
    ) -> None:
        super().__init__()
        self._projections, self._numbers, self._output_type = projections, numbers, output_type

    def process(self, input_index: int, batch: Batch) -> None:
        count, each = len(batch), len(self._projections)
        if not count:
            return
        sources = np.repeat(np.arange(count), each)
        columns = []
        for column in zip(*self._projections, strict=True):
            index = next(index for index in column if index is not None)
            is_null = np.tile([index is None for index in column], count)
            places = pa.array(sources, mask=is_null if is_null.any() else None)
            columns.append(batch.columns.column(index).take(places))
        columns.append(pa.array(np.tile(np.array(self._numbers, np.int64), count)))
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        self.output.emit(batch.replaced(self._output_type, columns=made, sources=sources))
