"""The merge of panes that moves on gives what merging the panes of each window gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_model import COLUMNAR

from headrace.operators.aggregates.aggregator_list import AggregatorList
from headrace.operators.window.columnar.accumulators import Accumulators, Chunk
from headrace.operators.window.columnar.panes.pane_stacks import PaneStacks

AGGREGATORS: AggregatorList = COLUMNAR.aggregators
VALUES = st.sampled_from([None, 0.1, -0.0, 1e300, 1e-300, 3.0, 1e16, float("nan"), float("inf")])
PANES = st.lists(st.lists(st.tuples(st.integers(0, 6), VALUES), max_size=8), min_size=1, max_size=9)


def pane(records: list[tuple[int, float | None]], first: int, hashes: int, *, has_text: bool) -> Accumulators:
    """The accumulators of some records, with so many different hashes."""
    numbers = np.array([key for key, _ in records], np.int64)
    values = pa.array([value for _, value in records], pa.float64())
    keys = pa.array([f"é{key}" for key in numbers], pa.string()) if has_text else pa.array(numbers)
    columns = dict.fromkeys(AGGREGATORS.inputs, values)
    arrivals = np.arange(first, first + len(records))
    ends = np.zeros(len(records), np.int64)
    return Accumulators.of_chunk(
        AGGREGATORS, Chunk(ends, (numbers * 5 % hashes).astype(np.uint64), keys, columns, arrivals)
    )


def shown(rows: Accumulators) -> str:
    """The keys and the results, in order, NaN and -0.0 told apart."""
    results = AGGREGATORS.results(rows.columns).values()
    return repr([rows.keys.to_pylist(), *(column.to_pylist() for column in results)])


@pytest.mark.parametrize("has_text", [True, False])
@settings(max_examples=40, deadline=None)
@given(records=PANES, size=st.integers(1, 5), hashes=st.sampled_from([2, 3, 1 << 20]))
def test_as_merged_one_by_one(records: list, size: int, hashes: int, has_text: bool) -> None:
    """Keys that come and go, that share hashes; values that are null, or need all of an exact sum."""
    panes = [pane(rows, 8 * i, hashes, has_text=has_text) for i, rows in enumerate(records)]
    nothing = panes[0].slice(0, 0)
    stacks = PaneStacks(AGGREGATORS, nothing, list(enumerate(panes))[:size], size - 1)
    for last in range(size - 1, len(panes)):
        start = last - size
        if start > stacks.boundary:
            stacks = PaneStacks(AGGREGATORS, nothing, list(enumerate(panes))[start + 1 : last + 1], last)
        elif last >= size:
            stacks.remove_up_to(start)
            stacks.add(panes[last])
        found = stacks.merged(99)
        expected = Accumulators.regrouped(AGGREGATORS, panes[start + 1 : last + 1])
        assert shown(found) == shown(expected)
        assert found.ends.tolist() == [99] * len(expected)
