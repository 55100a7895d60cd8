"""Large batches of an epoch in files without names."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.common.errors import InfrastructureError
from headrace.state import sorted_table
from headrace.state.runs import ALL_HASHES, HASH, RunStore
from headrace.state.runs.layout import KEY
from headrace.state.runs.merge_input import all_rows
from headrace.state.sorted_table import TableLayout, TimeSortedTable, is_large, spilled

ROWS = 10
SCHEMA = pa.schema({"time": pa.int64(), HASH: pa.uint64(), KEY: pa.int64(), "text": pa.string()})


def batch_of(*times: int) -> pa.RecordBatch:
    columns = [times, range(len(times)), range(len(times)), [None if time % 3 else "x" * time for time in times]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pa.RecordBatch:
    """A batch as large as those that are spilled, but for which a smaller one counts as little."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    batch = batch_of(*range(ROWS))
    monkeypatch.setattr(sorted_table, "SPILLED_BYTES", batch.nbytes)
    return batch


def test_a_batch_is_the_same_and_no_file_is_left(large: pa.RecordBatch, tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    found = spilled(large)
    assert found.equals(large)
    assert found.nbytes == large.nbytes
    assert pa.total_allocated_bytes() <= before, "it is in the file alone"
    assert not list(tmp_path.iterdir())


def test_some_rows_of_a_batch_are_as_large_as_they_are(large: pa.RecordBatch) -> None:
    assert is_large(spilled(large))
    assert not is_large(spilled(large).slice(1))


def test_what_cannot_be_written_is_told(large: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nowhere")
    with pytest.raises(InfrastructureError, match="TMPDIR"):
        spilled(large)


@pytest.mark.parametrize(("spills", "batches"), [(True, 3), (False, 1)])
def test_what_is_spilled_is_not_combined_before_the_epoch_ends(
    spills: bool, batches: int, large: pa.RecordBatch
) -> None:
    store = RunStore("rows", ALL_HASHES)
    layout = TableLayout("rows", "spilled", SCHEMA, 3, {})
    table = TimeSortedTable(store, layout, all_rows, spills=spills)
    table.begin_epoch()
    for _ in range(3):
        table.append(large)
    assert len(table.up_to(ROWS)) == batches
    assert table.times_between(2, 5).tolist() == [3, 4, 5]
    table.end_epoch()
    (run,) = store.runs
    assert run.batch.column("time").to_pylist() == sorted([*range(ROWS)] * 3)
