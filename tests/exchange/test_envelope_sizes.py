from __future__ import annotations

import numpy as np

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.typeinfo import Types
from headrace.exchange.envelope import MAX_CELL_BYTES
from headrace.exchange.sender import COALESCE_ROWS, MAX_PORTION_BYTES, ROUTING_ROWS, rows_at_a_time


def _columnar(texts: list[str]) -> Batch:
    times = np.zeros(len(texts), np.int64)
    return Batch(Types.STRING(), times, times, columns=layout_of(Types.STRING()).rows_to_columns(texts))


def test_narrow_records_go_by_number() -> None:
    assert rows_at_a_time(_columnar(["ab"] * 1000)) == ROUTING_ROWS


def test_wide_records_go_by_size() -> None:
    batch = _columnar(["x" * 100_000] * 50)
    rows = rows_at_a_time(batch)
    assert 1 <= rows * 100_000 <= MAX_CELL_BYTES


def test_a_record_larger_than_a_cell_goes_alone() -> None:
    assert rows_at_a_time(_columnar(["x" * (MAX_CELL_BYTES + 1)])) == 1


def test_objects_go_in_small_numbers() -> None:
    times = np.zeros(3, np.int64)
    assert rows_at_a_time(Batch(Types.PICKLED_BYTE_ARRAY(), times, times, rows=[1, "a", None])) == COALESCE_ROWS


def _made_by_a_function(texts: list[str]) -> Batch:
    times = np.zeros(len(texts), np.int64)
    return Batch(Types.STRING(), times, times, rows=texts)


def test_large_records_that_have_no_columns_yet_go_by_the_size_of_some() -> None:
    assert rows_at_a_time(_made_by_a_function(["x" * 1_000_000] * 200)) == MAX_PORTION_BYTES // 1_000_004
    assert rows_at_a_time(_made_by_a_function(["x"] * 20_000)) == COALESCE_ROWS
    assert rows_at_a_time(_made_by_a_function(["x" * 1_000_000] * 20)) == COALESCE_ROWS
