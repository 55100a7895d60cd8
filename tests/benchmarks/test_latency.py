"""The latency of records: what has to come out, and how it is found in visible files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.outcome import Epoch
from benchmarks.programs.headrace_latency import (
    KEYS,
    ClockedEpochs,
    epochs_of,
    parts,
    percentiles,
    read_results,
)
from benchmarks.suite.latency import totals


@pytest.mark.parametrize("records", [0, 1, KEYS, 2_500])
def test_totals_are_those_of_a_count_for_each_record(records: int) -> None:
    counts = [number // KEYS + 1 for number in range(records)]
    assert totals(records) == {"rows": records, "numbers": sum(range(records)), "counts": sum(counts)}


def test_only_visible_files_count_from_when_they_became_visible(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "chunk").write_text("1 1\n2 1\n")
    (tmp_path / "other").write_text("7 3\n")
    os.rename(tmp_path / ".hidden" / "chunk", tmp_path / "part")
    (tmp_path / ".hidden" / "staged").write_text("9 9\n")
    found = read_results(tmp_path)
    assert dict(zip(found.numbers.tolist(), found.counts.tolist(), strict=True)) == {1: 1, 2: 1, 7: 3}
    shown = dict(zip(found.numbers.tolist(), found.visible.tolist(), strict=True))
    assert shown[1] == shown[2] == (tmp_path / "part").stat().st_ctime_ns / 1e6


def test_no_visible_file_is_no_results(tmp_path: Path) -> None:
    assert len(read_results(tmp_path).numbers) == 0


def test_records_belong_to_the_epochs_that_read_them() -> None:
    assert epochs_of(np.array([0, 1, 2, 5, 6]), [2, 0, 4, 3]) == [0, 0, 2, 2, 3]


def test_a_latency_is_waiting_running_and_committing() -> None:
    epochs = ClockedEpochs()
    epochs.epochs = [Epoch(2, 0.1), Epoch(2, 0.1)]
    epochs.clock, epochs.ends = [1_000.0, 1_100.0], [1_080.0, 1_190.0]
    available = np.array([980.0, 1_060.0, 1_070.0])
    visible = np.array([1_090.0, 1_195.0, 1_195.0])
    found = parts(epochs, np.array([1, 2, 3]), available, visible)
    assert found == pytest.approx(
        {"waiting for its epoch": 0.03, "its epoch": 0.09, "from the end of the epoch to the visible file": 0.005}
    )
    assert percentiles(visible - available) == {"p50": 125.0, "p90": 133.0, "p99": 134.8, "p100": 135.0}
