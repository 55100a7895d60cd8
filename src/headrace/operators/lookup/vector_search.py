"""Vector search of SQL: rows with the rows of a table whose vectors are the most similar to theirs, by matrix products.

Products of matrices give the same sum in different ways for different numbers of rows. So they only choose candidates,
with room for their error; scores are computed row by row, and do not depend on how rows come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import list_lengths
from headrace.common.batch import Batch
from headrace.common.errors import InvalidTypeError
from headrace.operators.lookup.lookup_joins import LookupJoinDefinition, TableLookupOperator
from headrace.operators.lookup.readers import ReloadTrigger, TableReader

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_MOST_PRODUCTS: Final = 1 << 21
"""The most doubles of a matrix at a time."""


class SimilarityMetric(Enum):
    """The measure of the similarity of two vectors; a higher score means more similar ones."""

    COSINE = "cosine"
    """The cosine of the angle between them; 0 where one has no length."""
    DOT_PRODUCT = "dot-product"
    """The sum of the products of their numbers."""
    EUCLIDEAN = "euclidean"
    """``1 / (1 + d * d)`` of the distance ``d`` between them."""


@dataclass(frozen=True, slots=True)
class NearestRows:
    """The rows that are searched for.

    Attributes:
        count: how many are found, at most.
        metric: what makes vectors similar.
    """

    count: int
    metric: SimilarityMetric


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors, as the rows of a matrix.

    Attributes:
        rows: the place of each.
        matrix: its numbers.
    """

    rows: Longs
    matrix: Doubles

    @classmethod
    def of(cls, column: pa.Array, name: str) -> _Vectors:
        """The vectors of a column; a value that is NULL, or has a NULL in it, is none.

        Raises:
            InvalidTypeError: when they have different numbers of elements.
        """
        is_whole = np.asarray(column.is_valid())
        if (numbers := column.flatten()).null_count:
            owners = np.repeat(np.arange(len(column)), list_lengths(column))
            is_whole[owners[np.asarray(numbers.is_null())]] = False
        rows = np.flatnonzero(is_whole)
        kept = column.take(pa.array(rows))
        lengths = np.unique(list_lengths(kept))
        if len(lengths) > 1:
            raise InvalidTypeError(f"{name} have {lengths[0]} and {lengths[1]} numbers: vectors need as many each")
        width = int(lengths[0]) if len(lengths) else 0
        return cls(rows, kept.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(rows), width))


class VectorIndex:
    """The vectors of a table, each of which is compared with those that are searched for.

    Args:
        column: the vectors.
        nearest: which of them are found.
    """

    def __init__(self, column: pa.Array, nearest: NearestRows) -> None:
        self._nearest = nearest
        found = _Vectors.of(column, "the vectors of the table of VECTOR_SEARCH")
        self._places, self._vectors = found.rows, self._prepared(found.matrix)
        with np.errstate(all="ignore"):
            self._squares = (self._vectors * self._vectors).sum(axis=1)
        self._longest = float(np.sqrt(self._squares.max(initial=0)))

    def search(self, column: pa.Array) -> tuple[Longs, Longs, Doubles]:
        """The rows that are found for vectors, the most similar first: of which vector, their places, and scores.

        Raises:
            InvalidTypeError: when the vectors have other numbers of elements than those of the table.
        """
        queries = _Vectors.of(column, "the vectors that VECTOR_SEARCH searches for")
        if not len(queries.rows) or not len(self._places):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        width = self._vectors.shape[1]
        if queries.matrix.shape[1] != width:
            given = queries.matrix.shape[1]
            raise InvalidTypeError(
                f"VECTOR_SEARCH searches for vectors of {given} numbers, and those of the table have {width}"
            )
        with np.errstate(all="ignore"):
            found = [self._of_some(queries.matrix, *bounds) for bounds in self._bounds(len(queries.rows))]
        parents, places, scores = map(np.concatenate, zip(*found, strict=True))
        return queries.rows[parents], self._places[places], scores

    def _bounds(self, count: int) -> Iterator[tuple[int, int]]:
        step = max(1, _MOST_PRODUCTS // len(self._places))
        return ((start, min(start + step, count)) for start in range(0, count, step))

    def _of_some(self, given: Doubles, start: int, stop: int) -> tuple[Longs, Longs, Doubles]:
        queries, count = self._prepared(given[start:stop]), min(self._nearest.count, len(self._places))
        parents, places = self._candidates(queries, count)
        closeness = self._closeness(queries, parents, places)
        order = np.lexsort((places, -closeness, np.isnan(closeness), parents))
        parents = parents[order]
        ranks = np.arange(len(parents)) - np.searchsorted(parents, parents)
        kept = order[ranks < count]
        parents, places = parents[ranks < count], places[kept]
        return parents + start, places, self._scores(closeness[kept])

    def _candidates(self, queries: Doubles, count: int) -> tuple[Longs, Longs]:
        """Pairs among which the nearest are, by the product of all."""
        products = queries @ self._vectors.T
        lengths = np.sqrt((queries * queries).sum(axis=1, keepdims=True))
        if self._nearest.metric is SimilarityMetric.EUCLIDEAN:
            products = 2 * products - self._squares
            lengths = 2 * lengths + self._longest
        products[np.isnan(products)] = -np.inf
        least = np.partition(products, len(self._places) - count, axis=1)[:, [len(self._places) - count]]
        error = 8 * (queries.shape[1] + 4) * np.finfo(np.float64).eps * self._longest * lengths
        bound = np.where(np.isfinite(least - error), least - error, -np.inf)
        parents, places = np.nonzero(products >= bound)
        return parents, places

    def _closeness(self, queries: Doubles, parents: Longs, places: Longs) -> Doubles:
        """A score for each pair, greater for nearer rows, computed in a fixed order."""
        found = np.zeros(len(parents))
        step = max(1, _MOST_PRODUCTS // max(1, queries.shape[1]))
        for start in range(0, len(parents), step):
            some = slice(start, start + step)
            one, other = queries[parents[some]], self._vectors[places[some]]
            if self._nearest.metric is SimilarityMetric.EUCLIDEAN:
                found[some] = -((one - other) ** 2).sum(axis=1)
            else:
                found[some] = (one * other).sum(axis=1)
        return found

    def _scores(self, closeness: Doubles) -> Doubles:
        if self._nearest.metric is SimilarityMetric.EUCLIDEAN:
            return 1 / (1 - closeness)
        return np.clip(closeness, -1, 1) if self._nearest.metric is SimilarityMetric.COSINE else closeness

    def _prepared(self, matrix: Doubles) -> Doubles:
        """The vectors as they are multiplied: for cosines those of length 1 in their directions."""
        if self._nearest.metric is not SimilarityMetric.COSINE:
            return matrix
        with np.errstate(all="ignore"):
            # By the largest element first: squares of 1e-200 are 0, and of 1e200 infinite
            largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
            scaled = matrix / np.where(largest == 0, 1, largest)
            lengths = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
            return scaled / np.where(lengths == 0, 1, lengths)


class VectorSearchOperator(TableLookupOperator):
    """Rows with those of a table whose vectors are nearest, which is read as a whole.

    Args:
        definition: the vectors that are compared, and what becomes of rows.
        reader: reads the table.
        reload: the trigger of reloads.
        nearest: which rows are found.
    """

    def __init__(
        self, definition: LookupJoinDefinition, reader: TableReader, reload: ReloadTrigger, nearest: NearestRows
    ) -> None:
        super().__init__(definition, reader, reload)
        self._nearest = nearest

    def process(self, input_index: int, batch: Batch) -> None:
        (vectors,) = self._definition.keys_of(batch, self.context)
        parents, places, scores = self._vectors.search(vectors)
        added = [*(column.take(pa.array(places)) for column in self._columns), pa.array(scores)]
        made = self._definition.result.expanded(batch, parents, added, self.context)
        if made is not None:
            self.output.emit(made)

    def _index(self, keys: Sequence[pa.Array], count: int) -> None:
        self._vectors = VectorIndex(keys[0], self._nearest)
