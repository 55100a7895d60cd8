"""Results of each accumulator merged with all before it: found at once, and one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregator import Aggregator, GroupedRows
from headrace.operators.aggregates.simple import MinOrMax
from headrace.operators.aggregates.sums import SumFiniteFloats, SumFloats
from headrace.state.runs.grouping import Groups, Segments
from tests.draws import draws

VALUES = st.one_of(st.none(), st.floats(-1e9, 1e9), st.sampled_from([1e300, 1e-300, -1e22, 0.1, -0.0]))
GROUPS = st.lists(st.lists(VALUES, min_size=1, max_size=12), min_size=1, max_size=4)


def scanned(aggregator: Aggregator, groups: list[list[Any]]) -> list[Any]:
    column = pa.array([value for group in groups for value in group], pa.float64())
    places = np.arange(len(column))
    rows = GroupedRows({0: column}, places, Groups(places, Segments(places, len(column))))
    starts = np.cumsum([0, *map(len, groups[:-1])])
    running = aggregator.scan(aggregator.accumulate(rows), Segments(starts, len(column)))
    return aggregator.result(running).to_pylist()  # type: ignore[no-any-return]


def one_by_one(best: Any, groups: list[list[Any]]) -> list[Any]:
    heads = [[v for v in group[: place + 1] if v is not None] for group in groups for place in range(len(group))]
    return [best(head) if head else None for head in heads]


@pytest.mark.parametrize("kind", [SumFloats, SumFiniteFloats])
@settings(max_examples=draws(20), deadline=None)
@given(groups=GROUPS)
def test_running_sums_are_exact(kind: Any, groups: list[list[Any]]) -> None:
    assert scanned(kind(0, "v"), groups) == one_by_one(math.fsum, groups)


@settings(max_examples=draws(20), deadline=None)
@given(groups=GROUPS, is_largest=st.booleans())
def test_running_extremes(groups: list[list[Any]], is_largest: bool) -> None:
    found = scanned(MinOrMax(0, "v", Types.DOUBLE(), is_largest), groups)
    assert found == one_by_one(max if is_largest else min, groups)
