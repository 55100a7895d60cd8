"""Vector search by matrix products: what is found, beside a plain comparison of all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.common.errors import InvalidTypeError
from headrace.operators.lookup import vector_search
from headrace.operators.lookup.vector_search import NearestRows, SimilarityMetric, VectorIndex

NUMBERS = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e3, 1e3), st.sampled_from([0.1, -0.1, 1e-200]))
VECTORS = st.lists(st.one_of(st.none(), st.lists(NUMBERS, min_size=3, max_size=3)), max_size=12)


def column(vectors: list[Any]) -> pa.Array:
    return pa.array(vectors, pa.list_(pa.float64()))


def found(index: VectorIndex, vectors: list[Any]) -> list[tuple[int, int, float]]:
    parents, places, scores = index.search(column(vectors))
    return list(zip(parents.tolist(), places.tolist(), scores.tolist(), strict=True))


def similarity(metric: SimilarityMetric, one: list[float], other: list[float]) -> float:
    dot = math.sumprod(one, other) if hasattr(math, "sumprod") else sum(a * b for a, b in zip(one, other, strict=True))
    if metric is SimilarityMetric.DOT_PRODUCT:
        return dot
    if metric is SimilarityMetric.EUCLIDEAN:
        return 1 / (1 + math.dist(one, other) ** 2)
    lengths = math.hypot(*one) * math.hypot(*other)
    return dot / lengths if lengths else 0.0


@pytest.mark.parametrize("metric", SimilarityMetric)
@given(table=VECTORS, asked=VECTORS, count=st.integers(1, 4), step=st.integers(1, 30))
@example(table=[[0.0, 1.0, 0.0]], asked=[[0.0, 1e-200, 0.0]], count=1, step=1)
def test_the_nearest_rows_are_found_whichever_way_vectors_come(
    metric: SimilarityMetric, table: list[Any], asked: list[Any], count: int, step: int
) -> None:
    index = VectorIndex(column(table), NearestRows(count, metric))
    whole = found(index, asked)
    assert whole == [(at, place, score) for at, each in enumerate(asked) for _, place, score in found(index, [each])]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vector_search, "_MOST_PRODUCTS", step)
        assert found(index, asked) == whole
    for at, vector in enumerate(asked):
        mine = [(place, score) for parent, place, score in whole if parent == at]
        known = {} if vector is None else {i: similarity(metric, vector, v) for i, v in enumerate(table) if v}
        assert len(mine) == min(count, len(known))
        best = sorted(known.values(), reverse=True)[: len(mine)]
        assert [score for _, score in mine] == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert [score for _, score in mine] == pytest.approx([known[place] for place, _ in mine], rel=1e-9, abs=1e-9)


def test_equal_rows_come_in_the_order_of_the_table_and_what_is_no_number_last() -> None:
    nan = float("nan")
    table = [[nan, 0.0], [1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [1.0, None], None, [1.0, 0.0], [float("inf"), 0.0]]
    index = VectorIndex(column(table), NearestRows(9, SimilarityMetric.COSINE))
    assert [place for _, place, _ in found(index, [[3.0, 0.0]])] == [1, 3, 6, 2, 0, 7]
    assert found(index, [[0.0, 0.0]])[:2] == [(0, 1, 0.0), (0, 2, 0.0)]
    assert found(index, [None, [1.0, None]]) == []
    assert found(VectorIndex(column([None]), NearestRows(1, SimilarityMetric.COSINE)), [[1.0]]) == []


def test_vectors_of_other_lengths_are_refused() -> None:
    index = VectorIndex(column([[1.0, 2.0]]), NearestRows(1, SimilarityMetric.COSINE))
    with pytest.raises(InvalidTypeError, match="searches for vectors of 3 numbers, and those of the table have 2"):
        index.search(column([[1.0, 2.0, 3.0]]))
    with pytest.raises(InvalidTypeError, match="the vectors of the table of VECTOR_SEARCH have 1 and 2 numbers"):
        VectorIndex(column([[1.0, 2.0], [1.0]]), NearestRows(1, SimilarityMetric.COSINE))


def test_a_large_table_gives_what_all_pairs_give() -> None:
    random = np.random.default_rng(7)
    table, asked = random.normal(size=(2_000, 33)), random.normal(size=(40, 33))
    index = VectorIndex(column(table.tolist()), NearestRows(5, SimilarityMetric.EUCLIDEAN))
    distances = ((asked[:, None] - table[None]) ** 2).sum(axis=2)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :5]
    assert [place for _, place, _ in found(index, asked.tolist())] == nearest.ravel().tolist()
